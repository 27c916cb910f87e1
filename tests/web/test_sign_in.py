"""Sign-in of members: a link by mail, OpenID Connect with a code and PKCE, and a trusted proxy's header."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from dpmarket.campaign.access import add_member, end_member
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.mail import handlers
from dpmarket.campaign.worker import Methods, work
from dpmarket.errors import FileProblem
from dpmarket.web.folder import read_settings
from support.html_pages import Page
from support.readers import Reader
from support.servers import served
from support.shop import open_shop

KEY = RSAKey.generate_key(2048, {"kid": "1", "alg": "RS256", "use": "sig"})


class Provider(BaseHTTPRequestHandler):
    """An identity provider that signs whatever claims a test wants."""

    claims, asked = {}, {}

    def log_message(self, *_):
        pass

    def do_GET(self):
        own = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/keys":
            return self.tell({"keys": [KEY.as_dict(private=False)]})
        places = {"authorization_endpoint": "/ask", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return self.tell({"issuer": own, **{name: own + path for name, path in places.items()}})

    def do_POST(self):
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() == self.asked["code_challenge"]
        assert (form["code"], form["client_secret"]) == ("a code", "hush")
        own = f"http://127.0.0.1:{self.server.server_port}"
        usual = {"iss": own, "aud": "market", "exp": 4e9, "nonce": self.asked["nonce"], "sub": "4711"}
        token = jwt.encode({"alg": "RS256", "kid": "1"}, {**usual, **self.claims}, KEY)
        return self.tell({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def tell(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with served(Provider) as issuer:
        own = {"oidc_issuer": issuer, "oidc_client_id": "market", "oidc_client_secret": "hush"}
        proxy = {"auth_header": "X-Forwarded-User", "trusted_proxies": "127.0.0.1"}
        mails = {"smtp_url": "smtp+plain://127.0.0.1:1", "mail_from": "market@example.org"}
        with open_shop(tmp_path_factory.mktemp("doors"), **own, **proxy, **mails) as opened:
            opened.market.run(add_member, OWNER, "Ann", ["buyer"], "Ann@Example.org")
            opened.market.run(add_member, OWNER, "Bob", ["buyer"], "4711")
            yield opened


def ask(reader):
    """Begin at the provider; return what it is asked."""
    reader.shop.clock.pass_(minutes=1)
    answer = reader.shop.request("GET", "/oidc", headers=reader.headers)
    name, _, value = answer.headers["set-cookie"].split(";")[0].partition("=")
    reader.cookies[name] = value
    assert answer.status_code == 303
    asked = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    Provider.asked = asked
    return asked


def come_back(reader, claims, **changed):
    Provider.claims = claims
    asked = ask(reader)
    query = {"code": "a code", "state": asked["state"], **changed}
    return Page(reader.send("GET", "/oidc/callback?" + "&".join(f"{k}={v}" for k, v in query.items())))


def test_who_the_provider_names_is_signed_in_by_subject_or_verified_address(shop):
    assert come_back(Reader(shop), {}).path == "/m"
    verified = {"sub": "unknown", "email": "ann@example.ORG", "email_verified": True}
    assert come_back(Reader(shop), verified).path == "/m"


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "nobody"},
        {"sub": "nobody", "email": "ann@example.org"},
        {"nonce": "of another question"},
        {"aud": "another service"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1},
    ],
)
def test_an_answer_that_does_not_fit_signs_nobody_in(shop, claims):
    assert come_back(Reader(shop), claims).status == 401


def test_an_answer_to_another_browser_is_refused(shop):
    assert come_back(Reader(shop), {}, state="of-somebody-else").status == 401


def test_a_trusted_proxy_names_a_member_and_nobody_else_can(shop):
    shop.clock.pass_(minutes=1)
    reader = Reader(shop)
    reader.headers["X-Forwarded-User"] = "ann@example.org"
    page = reader.see("/login")
    assert "Continue as ann@example.org" in page.text
    assert reader.press(page, "/login").path == "/m"
    unknown = Reader(shop)
    unknown.headers["X-Forwarded-User"] = "nobody@example.org"
    assert unknown.press(unknown.see("/login"), "/login").status == 404


def test_a_header_that_no_trusted_proxy_sent_names_nobody(tmp_path):
    with open_shop(tmp_path, auth_header="X-Forwarded-User", trusted_proxies="192.0.2.1") as other:
        other.market.run(add_member, OWNER, "Ann", ["buyer"], "ann@example.org")
        reader = Reader(other)
        reader.headers["X-Forwarded-User"] = "ann@example.org"
        assert "Continue" not in reader.see("/login").text
        assert reader.send("POST", "/login", data={"how": "proxy"}).url.path == "/login"


def test_limits_count_each_caller_behind_a_trusted_proxy_apart(shop):
    shop.clock.pass_(minutes=2)
    for number in (1, 2):
        from_there = {"headers": {"X-Forwarded-For": f"203.0.113.{number}"}}
        answers = [shop.request("POST", f"/login/{'x' * 43}", **from_there).status_code for _ in range(11)]
        assert answers == [404] * 10 + [429]


def test_a_link_by_mail_signs_in_and_nobody_learns_who_is_a_member(shop):
    shop.clock.pass_(minutes=2)
    gone = shop.market.run(add_member, OWNER, "Gone", ["buyer"], "gone@example.org")
    shop.market.run(end_member, OWNER, gone)
    pages = []
    for address in ("ann@EXAMPLE.org", "nobody@example.org", "gone@example.org"):
        reader = Reader(shop)
        pages.append(reader.press(reader.see("/login"), "/login", email=address).html)
    assert len(set(pages)) == 1
    sent = []
    work(shop.market, Methods(None, None, None, handlers(sent.append)), ("mail",))
    assert [(mail.kind, mail.address) for mail in sent] == [("login", "ann@example.org")]
    assert Reader(shop).enter(f"/login/{sent[0].token}").path == "/m"


def test_settings_that_would_let_anybody_name_anybody_are_refused(tmp_path):
    provider = ('oidc_issuer = "https://id.example.org"', 'oidc_issuer = "http://id.example.org"')
    for wrong in ('auth_header = "X-User"', 'auth_header = "X-User"\ntrusted_proxies = "*"', *provider):
        (tmp_path / "settings.toml").write_text(wrong)
        with pytest.raises(FileProblem, match=r"auth_header|oidc_issuer"):
            read_settings(tmp_path)
