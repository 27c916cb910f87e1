# %% [markdown]
# # Your first desk
#
# In about ten minutes you run a live campaign: 200 people come one by one, are quoted at once, send sealed records, and are
# paid; the model is trained by itself when time is up, and everybody gets a receipt that they can check. There is no web page
# here: this is the library that such pages call. It needs the extra `service` (`pip install 'dpmarket[service]'`).
#
# Start `python` and type along.
#
# ## The rules
#
# What is bought, and at which prices, is fixed before anybody comes: the market file. `plan_opening` turns it into the
# curve by which everybody will be quoted. Nobody who comes has any part in it.

# %%
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import numpy as np

import dpmarket as dpm
from dpmarket import market
from dpmarket.campaign import check_market
from dpmarket.ledger import balance_of, reading

rules = {
    "sellers": {"expected": 200},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.001, "max_epsilon": 1.0},
    "money": {"currency": "EUR"},
    "features": {"age": {"low": 18, "high": 90}, "income": {"low": 0, "high": 100_000}},
    "label": {"column": "bought", "values": ["no", "yes"]},
}
opening = market.plan_opening(check_market(rules), "online")
print(f"at most epsilon {opening.ceiling:.3f}, and at most {opening.largest_payment} cents, for each")

# %% [markdown]
#     at most epsilon 0.181, and at most 52 cents, for each
#
# ## A desk, a campaign, money
#
# A desk is a ledger and a folder of private keys. Every act is a function that takes a connection, and the time: nothing
# here looks at a clock. What happens inside one `acting` block is done whole or not at all.

# %%
now = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
schedule = market.Schedule(now, now + timedelta(days=7), now + timedelta(days=9))
session = ExitStack()
desk = session.enter_context(market.open_desk("market.ledger", "keys"))
with market.acting(desk) as connection:
    buyer = market.add_member(connection, "a clinic", "buyer", now)
    text = market.add_consent(connection, "en", market.ENGLISH, now)
    draft = market.draft_campaign(
        connection, buyer, "spring", rules, "online", schedule, consent_version=text, now=now
    )
    spring = draft.campaign
    market.fund_campaign(connection, spring, 3000, now)  # 30 EUR, in cents
    key = market.new_key(desk.keys, spring)
    market.open_campaign(connection, spring, opening, key, now)
    page = market.consent_page(connection, spring)
    invited = market.invite(connection, spring, [f"panel {k}" for k in range(200)], 1.0, now)
print(f"{len(invited)} people are invited, and can read {len(page.text.split())} words first")

# %% [markdown]
#     200 people are invited, and can read 329 words first
#
# ## People come
#
# Each agrees to the page, takes a seat, and chooses. A *seat* is the largest payment of all, set aside for some minutes
# before the menu is shown: who finds no room is told so at once, joins the waiting list, and is never asked for a cost in
# vain. The cost that somebody names is used for their quote, and is in no table.

# %%
rng = np.random.default_rng(7)
costs = rng.uniform(1, 5, 200)
ages, incomes = rng.uniform(18, 90, 200), rng.uniform(0, 100_000, 200)
labels = np.where(ages / 90 + incomes / 100_000 > 1.0, "yes", "no")
sellers, waiting = [], []
for invitation, cost, age, income, label in zip(invited, costs, ages, incomes, labels, strict=True):
    with market.acting(desk) as connection:
        who = market.participation_with(connection, invitation.token)
        market.give_consent(connection, who, page.digest, now)
        if market.take_seat(connection, who, now).state == "waiting":
            waiting.append(who)
            continue
        quote = market.choose(connection, who, float(cost), now)
        if quote.payment == 0:
            continue
        market.accept(connection, who, now)
        record = {"age": float(age), "income": float(income), "bought": str(label)}
        market.deliver(connection, who, record, now)
        sellers.append((who, float(cost)))
    now += timedelta(minutes=10)
with reading(desk.ledger) as connection:
    held = balance_of(connection, spring).held
print(f"{len(sellers)} sell, {len(waiting)} wait for room, {held} cents are promised")

# %% [markdown]
#     92 sell, 103 wait for room, 2950 cents are promised
#
# One of the first changes their mind. The record is deleted, the money is free, and whoever waits longest is called to a
# seat. Nobody else's promise changes.

# %%
with market.acting(desk) as connection:
    market.withdraw_participation(connection, sellers[0][0], now)
called = market.Caller("seller", waiting[0])
with reading(desk.ledger) as connection:
    print(market.show_standing(connection, called, waiting[0]).state)

# %% [markdown]
#     seated
#
# ## What the buyer sees
#
# Sums over whole batches of 20 acceptances, rounded, and never a seller's cost, payment or record. A live total would show
# each payment, and a payment tells the cost.

# %%
with reading(desk.ledger) as connection:
    sums = market.show_sums(connection, market.Caller("buyer", buyer), spring)
    try:
        market.show_quote(connection, market.Caller("buyer", buyer), sellers[1][0])
    except dpm.DpmarketError as refusal:
        print(f"a seller's quote: {refusal}")
print(
    f"{sums.counts['delivered']} records; {sums.payments} cents for the first {sums.acceptances} acceptances"
)

# %% [markdown]
#     a seller's quote: there is nothing here for this caller.
#     91 records; 1910 cents for the first 60 acceptances
#
# ## Time is up
#
# A worker closes the campaign, spends the promises, opens the records, destroys the key that opens them, draws noise,
# keeps the model, and makes the certificate. Nobody decides that after seeing sums.

# %%
now = schedule.deliver_until
print([job.kind for job in market.work(desk, now)])
with reading(desk.ledger) as connection:
    print(market.campaign_of(connection, spring).state, list(desk.keys.glob(f"{spring}*")))
    market.check_market(connection)  # all books are right

# %% [markdown]
#     ['close', 'train', 'certify']
#     released []
#
# ## Receipts, and money
#
# Every seller checks their own receipt against the certificate, with their own cost. Then they are paid.

# %%
good = 0
with reading(desk.ledger) as connection:
    for who, cost in sellers[1:]:
        seller = market.Caller("seller", who)
        certificate = market.show_certificate(connection, seller, spring)
        receipt = market.show_receipt(connection, seller, who)
        good += dpm.verify(certificate, receipt=receipt, cost=cost).passed
    history = market.show_history(connection, seller, who)
print(good, "of", len(sellers) - 1, "receipts hold")
print(", ".join(event.kind for event in history))
lines = market.make_payout(desk, market.Caller("paymaster", "bank"), spring, now)
print(f"{len(lines)} payments, {sum(line.amount for line in lines)} cents")
session.close()

# %% [markdown]
#     91 of 91 receipts hold
#     invited, consented, seated, quoted, accepted, delivered, trained
#     91 payments, 2925 cents
#
# "explanation/desk" tells why it works this way, and "reference/market" lists every act.
