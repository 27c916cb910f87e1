"""What goes out of a service: webhooks, exports, files of payouts; what is deleted; how it looks."""

import base64
import contextlib
import csv
import hashlib
import hmac
import io
import json
import re
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import OWNER, id_of
from dpmarket.campaign.bank_file import FORMATS
from dpmarket.campaign.consent import add_consent
from dpmarket.campaign.hooks import enter_hooks
from dpmarket.campaign.worker import forget, work
from dpmarket.errors import MarketRefusal
from dpmarket.web.client import Refused
from dpmarket.web.outgoing import is_public
from dpmarket.web.worker import methods_of
from support.readers import member_of, seller_of
from support.servers import served
from support.shop import SOLD, open_shop

COST = 1.2345678


class Listener(BaseHTTPRequestHandler):
    """Takes webhooks on loopback, or answers with some other status first."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.answers.pop(0) if self.answers else 204
        if status == 204:
            self.taken.append((dict(self.headers), body))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.url)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    with served(Listener) as address:
        Listener.url, Listener.taken, Listener.answers = f"{address}/hook?x=1", [], []
        yield Listener


@pytest.fixture
def hook(shop, listener):
    """A webhook that is told of all campaigns."""
    made = shop.members["operator"].post("/add_webhook", {"url": listener.url})
    yield made
    with contextlib.suppress(Refused):
        shop.members["operator"].post("/end_webhook", {"webhook": made["id"]})


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    (folder / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>')
    look = {"brand_name": "Study House", "brand_colour": "#8a2be2", "brand_logo": folder / "logo.svg"}
    with open_shop(folder, private_hooks=True, **look) as opened:
        yield opened


def told(shop, **settings):
    """Send what is due to be sent; return the state of the jobs."""
    enter_hooks(shop.market)
    work(shop.market, methods_of(shop.settings.model_copy(update=settings)), ("hook",))
    job = schema.job.c
    with shop.market.look() as c:
        return [row.state for row in c.execute(sa.select(job.state).where(job.kind == "hook"))]


@pytest.fixture(scope="module")
def ended(shop):
    """A campaign that is released, paid out and confirmed, with the quotes of its sellers."""
    campaign = shop.open()
    sellers = [shop.seller(campaign, *SOLD, cost=COST + 0.1 * k) for k in range(3)]
    for k, seller in enumerate(sellers):
        seller.act("set_payee", payee=f"5f0c{k}")
    quotes = [seller.get("/me") for seller in sellers]
    shop.clock.pass_(days=10)
    shop.work()
    made = shop.members["paymaster"].act("pay_out", campaign)
    return campaign, quotes, made["id"]


def test_a_webhook_is_told_of_a_campaign_signed_and_in_order_and_of_no_person(shop, listener, hook):
    key = base64.b64decode(hook["secret"].removeprefix("whsec_"))
    quote = shop.seller(shop.open(), *SOLD, cost=COST).get("/me")
    listener.answers = [500, 302]  # a failure, and a way to somewhere else, are tried again
    for _ in range(3):
        states = told(shop)
        shop.clock.pass_(minutes=1)
    assert states == ["done"]
    bodies = [json.loads(body) for _, body in listener.taken]
    kinds = [body["type"] for body in bodies]
    assert [kind for kind in kinds if kind != "campaign.funded"] == ["campaign.draft", "campaign.open"]
    assert [body["data"]["number"] for body in bodies] == sorted({b["data"]["number"] for b in bodies})
    for headers, body in listener.taken:
        assert set(json.loads(body)) == {"type", "timestamp", "data"}
        assert set(json.loads(body)["data"]) == {"campaign", "number"}
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{right}"
        assert not [value for value in (COST, quote["epsilon"]) if str(value).encode() in body]
    shop.members["operator"].post("/end_webhook", {"webhook": hook["id"]})
    shop.open()
    assert told(shop) == []


def test_a_webhook_goes_to_no_private_address_not_in_clear_and_not_where_nothing_more_is_wanted(
    shop, listener, hook
):
    operator = shop.members["operator"]
    shop.open()
    assert told(shop, private_hooks=False) == ["failed"]
    assert listener.taken == []
    assert operator.get("/webhooks")[-1]["error"] == "Private"
    for url in ("file:///etc/passwd", "gopher://x/", "https://a b/", "//x"):
        with pytest.raises(Refused, match=r"not what was asked for\. \(.*url"):
            operator.post("/add_webhook", {"url": url})
    operator.post("/end_webhook", {"webhook": hook["id"]})
    other = operator.post("/add_webhook", {"url": listener.url})
    shop.open()
    listener.answers = [410]
    assert [told(shop), told(shop)] == [["failed"]] * 2
    operator.post("/end_webhook", {"webhook": other["id"]})
    wrong = [
        *("https://[x/", "https://host:port/", "https://host:99999/", "https://a..b"),
        f"https://{'a' * 70}.org/",
    ]
    made = [operator.post("/add_webhook", {"url": url}) for url in wrong]
    shop.open()
    assert told(shop) == ["failed"] * len(wrong)
    for one in made:
        operator.post("/end_webhook", {"webhook": one["id"]})


@pytest.mark.parametrize(
    "address",
    ["fd00::1", "::7f00:1", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "::1", "169.254.1.1"],
)
def test_local_addresses_and_ways_to_other_ones_are_not_public(address):
    assert not is_public(address)


def test_exports_hold_no_cost_epsilon_or_payment(shop, ended):
    campaign, quotes, _ = ended
    auditor, operator = member_of(shop, "auditor"), member_of(shop, "operator")
    texts = [
        reader.send("GET", f"/m/campaigns/{campaign}/{name}").text
        for name in ("events.csv", "acts.csv")
        for reader in (auditor, operator)
    ]
    acts = list(csv.DictReader(io.StringIO(texts[2])))
    assert {"draft", "open", "fund", "invite", "pay_out"} <= {row["act"] for row in acts}
    assert {row["kind"] for row in csv.DictReader(io.StringIO(texts[0]))} >= {"open", "released", "payout"}
    api = shop.members["auditor"].get(f"/campaigns/{campaign}/deeds")
    assert [one["act"] for one in api] == [row["act"] for row in acts]
    whole = "".join(texts) + json.dumps(api)
    for quote in quotes:
        for value in (quote["epsilon"], quote["payment"], f"{quote['payment'] / 100:.2f}", COST):
            assert not re.search(rf"[,:] ?{re.escape(str(value))}", whole)
    with pytest.raises(Refused, match="nothing here"):
        shop.members["buyer"].get(f"/campaigns/{campaign}/deeds")


def test_payouts_are_files_for_gift_cards_and_for_bonuses(shop, ended):
    _, quotes, payout = ended
    paymaster = member_of(shop, "paymaster")
    amounts = {f"5f0c{k}": f"{quote['payment'] / 100:.2f}" for k, quote in enumerate(quotes)}
    lines = paymaster.send("GET", f"/m/payouts/{payout}/bonuses.csv").text.splitlines()
    assert dict(line.split(",") for line in lines) == amounts
    table = list(
        csv.DictReader(io.StringIO(paymaster.send("GET", f"/m/payouts/{payout}/gift_cards.csv").text))
    )
    assert list(table[0]) == ["amount", "currency", "reference", "contact"]
    assert {row["contact"]: row["amount"] for row in table} == amounts
    shown = re.findall(rf"/m/payouts/{payout}/(\w+)\.csv", paymaster.see("/m/money").html)
    assert shown == list(FORMATS)
    assert shop.members["paymaster"].get(f"/payouts/{payout}")["lines"][0]["reference"] in str(table)
    assert member_of(shop, "buyer").send("GET", f"/m/payouts/{payout}/bonuses.csv").status_code == 404


def test_what_is_no_longer_needed_is_deleted_and_what_is_owed_is_not(shop, ended):
    campaign, _, payout = ended
    paymaster = shop.members["paymaster"]
    lines = paymaster.get(f"/payouts/{payout}")["lines"]
    paymaster.act("confirm", campaign, references=[one["reference"] for one in lines[:2]])
    shop.clock.pass_(days=31)
    seller, own = schema.seller.c, schema.participation.c

    def kept(table, column):
        mine = sa.select(own.id).where(own.campaign == id_of(campaign))
        with shop.market.look() as c:
            return c.scalar(sa.select(sa.func.count()).select_from(table).where(column.in_(mine)))

    payees = sa.select(sa.func.count(seller.payee)).join(schema.participation, own.id == seller.participation)
    events = kept(schema.event, schema.event.c.participation)
    forget(shop.market, timedelta(days=60), None)
    assert kept(schema.event, schema.event.c.participation) == events
    forget(shop.market, timedelta(days=30), timedelta(days=30))
    assert 0 < kept(schema.event, schema.event.c.participation) < events
    assert kept(schema.token, schema.token.c.participation) == 1
    with shop.market.look() as c:
        assert c.scalar(payees.where(own.campaign == id_of(campaign))) == 1  # is owed money still
        assert c.scalar(sa.select(sa.func.count(own.epsilon)).where(own.campaign == id_of(campaign))) == 3
        old = schema.deed.c.campaign == id_of(campaign)
        assert c.execute(sa.select(schema.deed.c.act).where(old)).all() == []
    shop.check()


def test_a_privacy_notice_is_part_of_what_is_agreed_to(shop):
    texts = {"en": "We agree.", "de": "Wir sind einig."}
    notices = {"en": "Notice <b>one</b>.\n\nTwo.", "de": "Hinweis."}
    with pytest.raises(MarketRefusal, match="privacy notices in the languages"):
        shop.market.run(add_consent, OWNER, texts, {"en": "Notice."})
    before = shop.seller(shop.open()).get("/me/consent")
    shop.market.run(add_consent, OWNER, texts, notices)
    reader = seller_of(shop, shop.open())
    page = reader.see("/s/consent")
    assert "Notice <b>one</b>." in page.text
    assert "<b>one</b>" not in page.html
    assert "Hinweis." in seller_of(shop, shop.open(), "de").see("/s/consent").text
    assert before["notice"] == ""


def test_pages_have_the_services_own_name_logo_and_colour(shop):
    page = member_of(shop, "operator").see("/")
    assert "Study House" in page.text
    (logo,) = [part.split('"')[0] for part in page.html.split('<img class="logo" src="')[1:]]
    answer = shop.request("GET", logo)
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "#8a2be2" in shop.request("GET", "/brand/style.css").text


def test_operators_enter_webhooks_and_texts_by_pages(shop, listener):
    reader = member_of(shop, "operator")
    page = reader.see("/m/people")
    page = reader.press(page, "/m/people/add_webhook", url=listener.url)
    assert "whsec_" in page.text
    page = reader.press(reader.see("/m/people"), "/m/people/end_webhook")
    assert listener.url not in page.text
    sent = {"consent.en": "By a page.", "notice.en": "Who is responsible."}
    assert reader.press(page, "/m/people/add_consent", **sent).status == 200
    shown = seller_of(shop, shop.open()).see("/s/consent").text
    assert "By a page." in shown
    assert "Who is responsible." in shown
