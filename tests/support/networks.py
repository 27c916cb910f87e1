"""A torch model that rules of tests name."""

import hashlib
from pathlib import Path

import torch

from dpmarket.learning import torch_factory

NAME = "torch:support.networks:small"


@torch_factory
def small(features, outputs):
    """Return a network that starts from the same weights each time, and further settings."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(features, 4), torch.nn.Tanh(), torch.nn.Linear(4, outputs)
    return {"module": torch.nn.Sequential(*layers), "steps": 20}


@torch_factory
def wrong(features, outputs):
    """Return settings that no estimator has."""
    return {**small(features, outputs), "speed": 3}


def unmarked(features, outputs):
    """Return a network without being marked as a factory."""
    return torch.nn.Linear(features, outputs)


def table(parameters=22, name=NAME):
    """Return the table of rules that names it: by default for two features and two labels."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return {"model": name, "code": code, "parameters": parameters}
