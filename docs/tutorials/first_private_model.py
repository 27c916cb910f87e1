# %% [markdown]
# # Your first private model
#
# You have records, every person has a privacy budget of their own, and you want a classifier. This tutorial takes ten
# minutes and needs no market. It goes from raw columns to a model, and shows what the budgets cost in accuracy.
#
#     $ make demo
#     $ source .venv/bin/activate
#
# Type along in `python`.
#
# ## Records and budgets
#
# 1,500 people, ten features, and three kinds of people: half want strong protection, a third are easy-going, the rest do
# not care much. A generator of public data makes the records, so that we may look at whatever we like.

# %%
import numpy as np

import dpmarket as dpm
from dpmarket.datasets import logistic

data = logistic(2_000, 10, np.random.default_rng(7))
train, test = data.split(0.75, np.random.default_rng(8))
kinds = np.random.default_rng(9).choice([0.1, 1.0, 5.0], len(train), p=[0.5, 0.35, 0.15])
print(f"{len(train)} people, budgets {sorted(set(kinds.tolist()))}")

# %% [markdown]
#     1500 people, budgets [0.1, 1.0, 5.0]
#
# ## Bounds that are public
#
# The noise is made for rows no longer than 1. `PublicScaler` brings them there with bounds that you state: from what a
# feature means, or from a public pilot. Never from the records: a maximum is somebody's value.

# %%
scaler = dpm.PublicScaler(data.low, data.high)
X = scaler.fit_transform(train.features)
print(f"longest row: {np.linalg.norm(X, axis=1).max():.2f}")

# %% [markdown]
#     longest row: 1.00
#
# ## Train
#
# It is a scikit-learn classifier; `fit` takes one thing more.

# %%
model = dpm.PrivateLogisticRegression(classes=data.classes)
model.fit(X, train.labels, epsilons=kinds)
assert (model.epsilons_ <= kinds).all()
right = (model.predict(scaler.transform(test.features)) == test.labels).mean()
print(f"right on {right:.0%}")
assert right > 0.7  # about 80%, a little more or less each time

# %% [markdown]
#     right on ...%
#
# `model.epsilons_` is what was spent of each budget. `classes` was declared because the labels that occur would otherwise
# be read from the records.
#
# ## Does it pay to use everybody's own budget?
#
# A library that knows one epsilon has to take the smallest for everybody, or leave out those below some threshold. Both
# are here as reference learners. To compare them, noise is drawn from seeds; a model made that way protects
# nobody, and could not be certified.

# %%
from dpmarket.privacy import SeededNoise


def mean_accuracy(make):
    found = []
    for seed in range(30):
        learner = make(dpm.PrivateLogisticRegression(classes=data.classes, noise_source=SeededNoise(seed)))
        learner.fit(X, train.labels, epsilons=kinds)
        found.append((learner.predict(scaler.transform(test.features)) == test.labels).mean())
    return np.mean(found)


print(f"own budgets      {mean_accuracy(lambda model: model):.2f}")
print(
    f"largest only     {mean_accuracy(lambda model: dpm.learning.reference.LargeEpsilonsOnly(model, threshold=5.0)):.2f}"
)
print(f"smallest for all {mean_accuracy(dpm.learning.reference.SmallestEpsilon):.2f}")

# %% [markdown]
#     own budgets      0.82
#     largest only     0.80
#     smallest for all 0.69
#
# "reference/accuracy" has the comparison on six data sets, with other libraries.
#
# ## How noisy is it?
#
# The noise has a known size. `noise_standard_error_` is the standard error that it causes in a coefficient that the data
# do not fix at all; where they do fix it, the error is smaller.

# %%
assert model.noise_standard_error_ > 0
print(f"{len(model.coef_[0])} coefficients, on a grid of width 2^{np.log2(model.grid_):.0f}")

# %% [markdown]
#     10 coefficients, on a grid of width 2^...
#
# The grid is part of the promise: what is published are whole numbers, and the rounding of a real computer has been
# accounted for ("explanation/estimator").
#
# ## Where to go from here
#
# - Several records per person, pipelines, cross-validation: "how-to/per-person-budgets".
# - What a budget means for the person: "explanation/epsilon".
# - Check the claim yourself: "how-to/audit-a-mechanism".
