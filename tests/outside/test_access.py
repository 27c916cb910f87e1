"""Who may see what over HTTP, and how everything else is refused; ``web/test_acts.py`` has every act."""

import json
import secrets
from dataclasses import dataclass

import pytest

from outside.driver import API, running_service
from outside.goods import GOODS, sellers

GOOD = GOODS["mean"]
MAX_BODY = 50_000
PAYEE = "account 4711 of somebody"
NAMES = [f"person {k} of the panel" for k in range(3)]
COSTS = [1.2345678, 2.3456789, 3.4567891]
SECRET = "a value of the request"
TIMES = dict(zip(("opens_at", "closes_at", "deliver_until"), ("2030-01-01T00:00Z",) * 3, strict=True))
NOWHERE = "a" * 13
MEMBERS = ("buyer", "other buyer", "paymaster", "auditor", "operator")
SELLERS = ("seller", "other seller", "foreign seller")


@dataclass
class World:
    """A released campaign with a payout, a campaign of another buyer, and a caller of every role."""

    service: object
    campaign: str
    foreign: str
    payout: str
    callers: dict


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("access"), max_body=MAX_BODY) as service:
        made = service.add_member("other buyer", "buyer")
        callers = {**service.members, "other buyer": service.caller(made.json["token"])}
        callers["nobody"] = service.caller(None)
        campaign = service.open(GOOD.rules(60))
        members = service.members
        service.members = {**members, "buyer": callers["other buyer"]}
        foreign = service.open(GOOD.rules(60))
        service.members = members
        people = service.invite(campaign, *NAMES)
        _, _, rows = sellers(GOOD, 3)
        for caller, cost, record in zip(people, COSTS, rows, strict=True):
            caller.sell(cost, record[0])
            caller.act("set_payee", payee=PAYEE)
        (stranger,) = service.invite(foreign, "a stranger")
        callers |= dict(zip(SELLERS, [*people[:2], stranger], strict=True))
        service.certified(campaign, days=9.1)
        payout = members["paymaster"].post(f"/campaigns/{campaign}/pay_out")["id"]
        yield World(service, campaign, foreign, payout, callers)


# --- who may see what ----------------------------------------------------------------------------

SOLD = {"seller", "other seller"}
INVOLVED = {"buyer", "auditor", "operator", "paymaster", *SOLD}
READING = {
    "/campaigns": set(MEMBERS),
    "/campaigns/{campaign}": INVOLVED,
    "/campaigns/{campaign}/rules": INVOLVED,
    "/campaigns/{campaign}/sums": {"buyer", "auditor"},
    "/campaigns/{campaign}/money": {"buyer", "auditor", "paymaster"},
    "/campaigns/{campaign}/events": INVOLVED - SOLD,
    "/campaigns/{campaign}/released": {"buyer", "auditor", *SOLD},
    "/campaigns/{campaign}/certificate": {"buyer", "auditor", *SOLD},
    "/campaigns/{campaign}/openings": {"auditor"},
    "/payouts": {"paymaster"},
    "/payouts/{payout}": {"paymaster"},
    "/members": {"operator"},
    "/me": set(SELLERS),
    "/me/events": set(SELLERS),
    "/me/limits": set(SELLERS),
    "/me/receipt": SOLD,
}


def placed(route, world):
    return route.format(campaign=world.campaign, payout=world.payout)


def test_everybody_reads_what_is_theirs_and_for_all_others_it_does_not_exist(world):
    found = {}
    for route in READING:
        seen = {role: one.request("GET", placed(route, world)) for role, one in world.callers.items()}
        answers = {role: answer.status_code for role, answer in seen.items()}
        assert answers.pop("nobody") == 401, route
        assert set(answers.values()) <= {200, 404}, route
        found[route] = {role for role, status in answers.items() if status == 200}
    assert found == READING
    lists = [world.callers[role].get("/campaigns").json() for role in (*MEMBERS[:2], "auditor")]
    mine, foreign = {world.campaign}, {world.foreign}
    found = [{one["id"] for one in campaigns} for campaigns in lists]
    assert found == [mine, foreign, mine | foreign]


def test_what_is_somebody_elses_is_refused_exactly_as_what_does_not_exist(world):
    for role in ("other buyer", "foreign seller"):
        for name in ("", "/rules", "/sums", "/certificate", "/openings"):
            there, nowhere = (
                world.callers[role].request("GET", f"/campaigns/{campaign}{name}")
                for campaign in (world.campaign, NOWHERE)
            )
            assert (there.status_code, there.content) == (nowhere.status_code, nowhere.content)
            differing = {"date", "x-request-id"}
            assert [pair for pair in there.headers.items() if pair[0] not in differing] == [
                pair for pair in nowhere.headers.items() if pair[0] not in differing
            ]


def test_nobody_reads_costs_names_or_payees_but_a_paymaster_payees_and_amounts(world):
    private = [*NAMES, *map(str, COSTS), PAYEE]
    read = [
        world.callers[role].request("GET", placed(route, world)).text
        for route in READING
        for role in ("buyer", "auditor", "operator", "seller", "foreign seller")
    ]
    assert len(read) > 50
    assert [value for value in private for text in read if value in text] == []
    openings = world.callers["auditor"].get(f"/campaigns/{world.campaign}/openings").text
    assert [name for name in (*NAMES, PAYEE) if name in openings] == []
    lines = world.callers["paymaster"].get(f"/payouts/{world.payout}").json()["lines"]
    assert [set(line) for line in lines] == [{"reference", "payee", "amount"}] * 3
    assert {line["payee"] for line in lines} == {PAYEE}


def test_a_sealed_report_can_be_read_by_nobody_before_the_campaign_is_cleared(world):
    campaign = world.service.open(GOOD.rules(12), "offline")
    (caller,) = world.service.invite(campaign, "a person who reports")
    caller.sell(1.9876543, None, "offline")
    for role in MEMBERS:
        for name in ("", "/costs", "/sums", "/openings"):
            answer = world.callers[role].request("GET", f"/campaigns/{campaign}{name}")
            assert "1.9876543" not in answer.text
    assert not world.callers["auditor"].request("GET", f"/campaigns/{campaign}/costs").is_success
    assert "1.9876543" not in caller.get("/me").text


# --- tokens --------------------------------------------------------------------------------------


def test_a_member_whose_membership_ended_is_let_in_no_more_while_others_stay(world):
    made = world.service.add_member("a leaver", "auditor").json
    caller = world.service.caller(made["token"])
    assert caller.get(f"/campaigns/{world.campaign}/sums").is_success
    world.service.run("member", "end", world.service.folder, "a leaver")
    assert caller.request("GET", f"/campaigns/{world.campaign}/sums").status_code == 401
    link = made["link"][made["link"].index("/login/") :]
    assert world.service.http.post(link).status_code in (401, 404)
    assert world.callers["auditor"].get(f"/campaigns/{world.campaign}/sums").is_success


def test_a_token_counts_only_whole_and_only_as_a_bearer_token(world):
    http, token = world.service.http, world.service.tokens["auditor"]
    path = f"{API}/campaigns/{world.campaign}/sums"
    assert http.get(path, headers={"Authorization": f"Bearer {token}"}).is_success
    for headers in (
        {"Authorization": f"Bearer {token[:-1]}"},
        {"Authorization": f"Bearer {token}x"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer " + "x" * 5_000},
        {"Cookie": f"__Host-dpmarket={token}"},
    ):
        assert http.get(path, headers=headers).status_code == 401
    assert http.get(path, params={"token": token}).status_code == 401
    assert http.post(f"/login/{token}").status_code == 404
    session = http.post(f"/i/{world.callers['seller'].token}").headers["set-cookie"].split(";")[0]
    http.cookies.clear()
    assert http.get(f"{API}/me", headers={"Cookie": session}).status_code == 401  # it opens pages alone


# --- refusals ------------------------------------------------------------------------------------


def refusals(world):
    """Return requests that are wrong in one way each, with the status that says so."""
    http, campaign = world.service.http, world.campaign
    seller, buyer = (f"Bearer {world.callers[role].token}" for role in ("foreign seller", "buyer"))

    def post(path, body, token=seller, **headers):
        sent = {
            "Authorization": token,
            "Content-Type": "application/json",
            "Idempotency-Key": secrets.token_hex(16),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return http.post(API + path, content=content, headers=sent)

    cost = {"cost": 1.0}
    return {
        "too large": (post("/me/deliver", {"values": {"age": SECRET * MAX_BODY}}), 413),
        "not JSON": (post("/me/choose", b'{"cost": ' + SECRET.encode()), 400),
        "not UTF-8": (post("/me/choose", b'{"cost": "\xff\xfe"}'), 400),
        "not a number": (post("/me/choose", b'{"cost": NaN}'), 400),
        "deep": (post("/me/choose", b"[" * 20_000 + b"]" * 20_000), 400),
        "a form": (post("/me/choose", b"cost=1", Content_Type="application/x-www-form-urlencoded"), 415),
        "compressed": (post("/me/choose", cost, Content_Encoding="gzip"), 415),
        "unknown host": (post("/me/choose", cost, Host="example.org"), 421),
        "another site": (post("/me/choose", cost, Origin="https://example.org"), 403),
        "a text": (post("/me/choose", {"cost": SECRET}), 422),
        "unknown key": (post("/me/choose", {**cost, SECRET: 1}), 422),
        "short key": (post("/me/choose", cost, Idempotency_Key="short"), 422),
        "unknown rules": (post("/campaigns", {**TIMES, "rules": {SECRET: SECRET}}, token=buyer), 422),
        "not an id": (http.get(f"{API}/campaigns/{SECRET}", headers={"Authorization": buyer}), 422),
        "no such place": (http.get(f"{API}/{SECRET}", headers={"Authorization": buyer}), 404),
        "no such act": (http.delete(f"{API}/campaigns/{campaign}", headers={"Authorization": buyer}), 405),
        "no token": (http.get(f"{API}/me"), 401),
    }


def test_every_refusal_is_one_kind_of_document_that_repeats_nothing_of_the_request(world):
    before = world.callers["foreign seller"].me()
    for name, (answer, status) in refusals(world).items():
        assert answer.status_code == status, (name, answer.status_code, answer.text)
        assert answer.headers["content-type"].split(";")[0] == "application/problem+json", name
        told = answer.json()
        assert set(told) == {"title", "status", "problems"}, name
        assert told["status"] == answer.status_code, name
        assert told["title"], name
        assert all(set(one) == {"where", "kind"} for one in told["problems"]), name
        assert SECRET not in answer.text, name
    assert world.callers["foreign seller"].me() == before


def test_every_answer_forbids_caching_sniffing_framing_and_foreign_scripts(world):
    http = world.service.http
    answers = [http.get("/"), http.get(f"{API}/me"), http.get("/healthz"), http.get("/no-such-page")]
    answers.append(world.callers["buyer"].get(f"/campaigns/{world.campaign}/released"))
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert not {"server", "strict-transport-security"} & set(answer.headers)  # this one has no TLS


def test_guessing_links_is_limited_by_address(world):
    # Last in this file: afterwards nobody signs in from here for a minute.
    guesses = [world.service.http.post(f"/i/{secrets.token_urlsafe(32)}") for _ in range(14)]
    statuses = [answer.status_code for answer in guesses]
    assert set(statuses) == {404, 429}
    assert statuses[-1] == 429
    assert world.callers["seller"].get("/me").is_success
