"""The OpenAPI document reads well, and every answer to whatever fits it, or does not, is as it says."""

import copy
import json
import secrets

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dpmarket.web.app import make_routes
from support.shop import RULES, SOLD

# The server's threads use Python's random numbers, too, while examples are drawn.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
DOCUMENT = make_routes().state.document
LABELS = [
    f"{method.upper()} {path}"
    for path, item in DOCUMENT["paths"].items()
    for method in item
    if method in ("get", "post", "put", "patch", "delete")
]
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
PAYMASTER = ("fund", "refund", "pay_out", "confirm", "returned", "money")
OPERATOR = ("invite", "reissue_links", "revoke_links", "withdraw_people", "members", "add_member", "grant")
CALLS = {
    **dict.fromkeys(PAYMASTER, "paymaster"),
    **dict.fromkeys((*OPERATOR, "revoke_role", "link_member", "token_member", "add_consent"), "operator"),
    "openings": "auditor",
    "costs": "auditor",
}


FRAMING = ("content-length", "transfer-encoding", "connection", "host")
"""Headers that the server answers for before any route is looked at."""
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
TRIED = [(RIGHT, label) for label in LABELS]
# Where nothing is asked nothing can be asked wrongly.
TRIED += [pytest.param(WRONG, label, marks=pytest.mark.slow) for label in LABELS if "/api/" in label]


@pytest.fixture(scope="module")
def operations():
    schema = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


@pytest.fixture(scope="module")
def campaign(shop):
    """A campaign with somebody in every state that can be had quickly."""
    made = shop.open()
    for steps in range(len(SOLD) + 1):
        shop.seller(made, *SOLD[:steps])
    return made


def caller(shop, campaign, label):
    """Return a token with which a call may come far."""
    path = label.split()[1]
    shop.clock.pass_(minutes=5)  # invitations are limited, and every route of a seller needs one
    if path.startswith("/api/v1/me"):
        return shop.invite(campaign)[0]
    if path.startswith("/api/v1/payouts"):
        return shop.tokens["paymaster"]
    return shop.tokens[CALLS.get(path.rsplit("/", 1)[-1], "buyer")]


@pytest.mark.parametrize("examples", [2, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("mode", "label"), TRIED)
def test_every_answer_is_as_documented(shop, campaign, operations, mode, label, examples):
    operation, token = operations[label], caller(shop, campaign, label)

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    def run(case):
        if mode is GenerationMode.POSITIVE and "campaign" in (case.path_parameters or {}):
            case.path_parameters["campaign"] = campaign
        for name in [name for name in case.headers or () if name.lower() in FRAMING]:
            del case.headers[name]
        headers = {"Authorization": f"Bearer {token}"}
        if mode is GenerationMode.POSITIVE and "Idempotency-Key" in str(operation.label) + str(case.headers):
            headers["Idempotency-Key"] = secrets.token_hex(16)
        if mode is GenerationMode.POSITIVE and label == "POST /api/v1/campaigns":
            case.body["rules"] = RULES  # nobody invents a distribution of costs by chance
        shop.clock.pass_(seconds=7)  # no limit is in the way
        case.call_and_validate(base_url=shop.url, headers=headers, checks=CHECKS, timeout=60)

    run()


def test_the_document_says_what_every_route_and_field_is_for():
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            assert operation["description"].endswith("."), f"{method} {path}"
            assert "500" in operation["responses"], path
            if path.startswith("/api/"):
                assert operation["security"] == [{"HTTPBearer": []}], path
                assert {"401", "404", "422", "503"} <= set(operation["responses"]), path
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"]
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert schema.get("description"), name


def test_the_document_is_served(shop):
    assert shop.request("GET", "/api/v1/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
