"""Preload for commands of the outside tests: the whole package, imported once, forked for each command."""

import gc
import importlib
import pkgutil

import numpy as np

import dpmarket as dpm

gc.disable()  # a fork that collects garbage copies every page that it looks at
for _module in pkgutil.walk_packages(dpm.__path__, "dpmarket."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
importlib.import_module("alembic.command")  # the command that makes a database imports it
# Load compiled loops. polars is imported but not used: its threads would be missing in a fork.
dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(5, 0.01)).run(np.linspace(1, 5, 60))
dpm.PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)).fit(np.eye(4) / 2, [0, 1, 0, 1])
gc.freeze()
gc.enable()
