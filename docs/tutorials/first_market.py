# %% [markdown]
# # Your first market
#
# In about ten minutes you buy privacy from 456 people, pay them so that lying does not pay, train a model that keeps
# every promise, and check that all of it is true. Everything runs on public data that comes with scikit-learn.
#
# You need Python 3.11 or newer and make. In a fresh clone of the project, this installs everything, runs a demonstration
# and leaves you in an environment in which `import dpmarket` works:
#
#     $ make demo
#     $ source .venv/bin/activate
#
# Start `python` and type along.
#
# ## The people and their records
#
# The records are 569 tumours, each measured in 30 ways and labelled malignant or benign. Imagine that four fifths belong
# to people who may sell, and keep the rest for testing.

# %%
import numpy as np

import dpmarket as dpm
from dpmarket.datasets import breast_cancer

data = breast_cancer()
rng = np.random.default_rng(2024)
people, test = data.split(0.8, rng)
print(f"{len(people)} people, {people.n_features} features")

# %% [markdown]
#     456 people, 30 features
#
# ## What privacy costs them
#
# A promise is a number, epsilon. The larger it is, the more the published model may tell about the person; 0 means that
# their record has no influence at all. A person with cost 2 loses 2 per unit of epsilon. Nobody but the person knows
# that number; known is only how costs are spread, here evenly between 1 and 5.

# %%
dist = dpm.Uniform(1, 5)
costs = dist.sample(len(people), rng)  # each knows their own; they may lie about it

# %% [markdown]
# ## A budget becomes a plan
#
# You have 1,000 to spend. How much of everybody's privacy that buys is planned *before* anybody reports, from the
# distribution alone: if the plan followed the reports, lying would pay.

# %%
model_error = dpm.planning.estimator_error(people.n_features)  # how much noise matters: public
plan = dpm.planning.plan_prices(dist, len(people), 1000.0, model_error, max_mean_epsilon=1.0)
mechanism = dpm.OfflineMechanism(dist, plan.objective)
print(f"expected payments: {plan.expected_payment:.0f}")
print(plan.expected_error.sentence())

# %% [markdown]
#     expected payments: 1000
#     Of the expected error 94% is noise and 6% comes from few people.
#
# The plan has prices of its own: how bad a noisy model is, and one that leans on few people, so that the error to expect
# is the least for this money. The bound on the mean epsilon keeps it from asking a few people for nearly all of their
# privacy. "how-to/plan-a-budget" shows more of this.
#
# ## Everybody reports, and is quoted

# %%
outcome = mechanism.run(costs)
bought = outcome.epsilons > 0
print(f"bought from {bought.sum()}, paid {outcome.total_payment:.2f}")
print(" cost  epsilon  payment  what it costs them")
for i in np.argsort(costs)[[0, 100, 200, 300]]:
    epsilon, payment = outcome.epsilons[i], outcome.payments[i]
    print(f"{costs[i]:5.2f} {epsilon:8.3f} {payment:8.2f} {costs[i] * epsilon:8.2f}")

# %% [markdown]
#     bought from 194, paid 1016.93
#      cost  epsilon  payment  what it costs them
#      1.01    4.536     8.70     4.57
#      1.90    2.294     5.42     4.36
#      2.89    0.000     0.00     0.00
#      3.78    0.000     0.00     0.00
#
# Those whose privacy is cheap give more of it, nobody is paid less than it costs them, and the dear ones are left alone.
# The total is not exactly 1,000: the plan meets the budget on average over all markets (`confidence=` makes it a limit).
#
# ## Would a lie have paid?
#
# The second person in the table has a cost of 1.90. What would they have gained with other reports?

# %%
i = int(np.argsort(costs)[100])
for report in (1.0, 1.5, costs[i], 2.5, 3.0):
    answer = mechanism.respond(costs, i, report)
    print(f"reports {report:.2f}: gains {answer.payment - costs[i] * answer.epsilon:.3f}")

# %% [markdown]
#     reports 1.00: gains 0.036
#     reports 1.50: gains 0.852
#     reports 1.90: gains 1.054
#     reports 2.50: gains 0.608
#     reports 3.00: gains 0.000
#
# The truth is best. Not by luck: "explanation/payments" says why, and an audit searches for counterexamples.

# %%
audit = dpm.audit_truthfulness(
    mechanism, dist, sellers=50, profiles=2, misreports=50, rng=np.random.default_rng(1)
)
assert audit.passed
assert dpm.audit_participation(outcome, costs).passed  # exact arithmetic: nobody lost

# %% [markdown]
# ## A model that keeps every promise
#
# Rows must be of bounded length, with bounds that are public. Then the promises go in, one for each person.

# %%
scaler = dpm.PublicScaler(data.low, data.high)
model = dpm.PrivateLogisticRegression(classes=data.classes)
model.fit(scaler.fit_transform(people.features), people.labels, epsilons=outcome.epsilons)
assert (model.epsilons_ <= outcome.epsilons).all()  # spent: never more than promised

wrong = (model.predict(scaler.transform(test.features)) != test.labels).mean()
print(f"wrong on {wrong:.0%} of the test records")
assert wrong < 0.25  # more often than not below 10%

# %% [markdown]
#     wrong on ...% of the test records
#
# Run it again and the number differs: the noise comes from the operating system and is known to nobody. Compare it with
# a model that promises nothing:

# %%
from sklearn.linear_model import LogisticRegression

plain = LogisticRegression(C=100, max_iter=1000).fit(scaler.transform(people.features), people.labels)
wrong = (plain.predict(scaler.transform(test.features)) != test.labels).mean()
print(f"without privacy: wrong on {wrong:.0%}")

# %% [markdown]
#     without privacy: wrong on 4%
#
# The difference is what protection costs at this budget. "how-to/plan-a-budget" shows what another budget would buy.
#
# ## Let others check
#
# A certificate states what was promised, paid and spent, without a name in it. Each seller gets a receipt.

# %%
certificate = dpm.certify(outcome, model)
receipt = certificate.receipt(i)
verification = dpm.verify(certificate, receipt=receipt, cost=float(costs[i]))
assert verification.passed

# %% [markdown]
# ## Where to go from here
#
# - You have files, not arrays: "how-to/campaign".
# - Sellers come one by one: "how-to/quote-online".
# - You have budgets and want only the model: "first-private-model".
# - What did epsilon mean again? "explanation/epsilon".
