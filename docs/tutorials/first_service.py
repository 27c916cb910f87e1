# %% [markdown]
# # Your first service, by a program
#
# In about five minutes you run the service on your own machine and go through a whole campaign by its API, as a buyer, a
# paymaster, an operator and thirty sellers: with `dpmarket.web.client`, the client that the demonstration and the tests use.
# "first-live-campaign" is the same with pages. It needs the extra `service` (`pip install 'dpmarket[service]'`).
#
# Start `python` and type along.
#
# ## A service on loopback
#
# `dpmarket serve` does this with two processes: one answers requests and has no private key, one works and has them all. Here
# both are threads, and the clock is ours, so that nine days pass when we say so.

# %%
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpmarket.certificates import verify
from dpmarket.web.client import Client, Refused
from dpmarket.web.invented import invented_people, market_for
from dpmarket.web.running import opened, serving, working
from dpmarket.web.settings import Settings
from dpmarket.web.setup import new_member, prepare

ahead = timedelta()
session = ExitStack()
settings = Settings(folder=Path("study"))
desk = session.enter_context(opened(settings, is_new=True))
prepare(desk)
url, metrics = session.enter_context(serving(desk, settings, lambda: datetime.now(UTC) + ahead))
session.enter_context(working(desk, lambda: datetime.now(UTC) + ahead))
print("answers on loopback:", url.startswith("http://127.0.0.1:"))

# %% [markdown]
#     answers on loopback: True
#
# ## Members
#
# Everybody who works with a service has a token, told once, by `dpmarket service invite-member`. A client is an address and a
# token.

# %%
members = {
    role: session.enter_context(Client(url, new_member(desk, f"A {role}", role, url).token))
    for role in ("buyer", "paymaster", "operator", "auditor")
}
buyer, paymaster, operator, auditor = members.values()

# %% [markdown]
# ## A campaign
#
# The buyer drafts it from a market file's own tables, the paymaster enters that money arrived, the buyer opens it. Too little
# money is refused, and what is somebody else's does not exist: every refusal has a status.

# %%
now = datetime.now(UTC)
times = [(now + timedelta(days=days)).isoformat() for days in (0, 7, 9)]
study = buyer.draft("A sleep study", "online", market_for(30), *times)["id"]
try:
    buyer.open_campaign(study)
except Refused as refusal:
    print("without money:", refusal.status)
paymaster.fund(study, 20_000)
print("then:", buyer.open_campaign(study)["state"])

# %% [markdown]
#     without money: 402
#     then: open
#
# ## Thirty sellers
#
# The operator invites, and gets a token for each. A seller reads what taking part means, takes a seat, sees the menu, names
# what privacy costs them, accepts, and sends a record, which is sealed when it arrives. The costs and records are invented.

# %%
people = invented_people(30)
invited = operator.invite(study, [person.name for person in people])
sellers = [session.enter_context(Client(url, one["token"])) for one in invited]
for person, seller in zip(people, sellers, strict=True):
    seller.consent()
    seller.menu()
    offer = seller.quote(person.cost)
    if offer["payment"] == 0:
        continue
    seller.accept()
    seller.deliver(person.record)
    seller.set_payee(f"account of {person.name}")
states = [seller.me()["state"] for seller in sellers]
print({state: states.count(state) for state in sorted(set(states))})

# %% [markdown]
#     {'delivered': 30}
#
# One of them changes their mind. Nobody else's offer moves.

# %%
leaving = states.index("delivered")
print(sellers[leaving].withdraw())

# %% [markdown]
#     {'state': 'withdrawn'}
#
# ## Training, by itself
#
# When the time for answers is over, the campaign closes and trains by itself: nobody decides that after a look at sums. The
# buyer sees rounded sums, never one seller.

# %%
ahead = timedelta(days=9, minutes=1)
while buyer.campaign(study)["state"] != "released":
    time.sleep(0.2)
certificate = None
while certificate is None:
    try:
        certificate = buyer.certificate(study)
    except Refused:
        time.sleep(0.2)
print("sold:", buyer.totals(study)["counts"]["spent"])

# %% [markdown]
#     sold: 29
#
# ## Receipts and money
#
# Every seller has a receipt. Whoever holds one checks it with a verifier that shares no code with the service, and with their
# own cost, which the service has not kept.

# %%
selling = [k for k, seller in enumerate(sellers) if seller.me()["state"] == "spent"]
checked = [verify(certificate, receipt=sellers[k].receipt(), cost=people[k].cost).passed for k in selling]
print("receipts that hold:", sum(checked), "of", len(checked))
made = paymaster.pay_out(study)
print("payments to make:", len(made["lines"]))
print("confirmed:", paymaster.confirm(made["payout"]["id"], [line["reference"] for line in made["lines"]]))
print(sellers[selling[0]].events()[-1])
session.close()

# %% [markdown]
#     receipts that hold: 29 of 29
#     payments to make: 29
#     confirmed: 29
#     trained
#
# The same calls, with an `Idempotency-Key` on every one that moves money, are what a panel's own software sends:
# "reference/api" lists them all.
