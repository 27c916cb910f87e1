"""What stands before the application: other sites, other hosts, strict headers, limits, sign-in links."""

import contextlib
import socket
import time

import pytest

from dpmarket.web import running
from dpmarket.web.folder import new_member
from support.shop import body_of

COOKIE = "__Host-dpmarket"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "https://elsewhere.example"),
        ("Origin", "null"),
    ],
)
def test_a_change_that_another_sites_page_asks_for_is_refused(shop, header, value):
    seller = shop.seller(shop.open(), "consent")
    key = {"Idempotency-Key": "0123456789abcdef-key"}
    answer = shop.request("POST", "/api/v1/me/withdraw", seller.token, headers={header: value, **key})
    assert answer.status_code == 403
    assert body_of(answer)["problems"] == [{"where": f"header.{header}", "kind": "cross-site"}]
    assert seller.me()["state"] == "consented"
    # A page that tells nobody where it was asks its own site with the origin "null".
    for origin in (shop.url, "null"):
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin", **key}
        assert shop.request("POST", "/api/v1/me/withdraw", seller.token, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1.elsewhere.example:80", "x@127.0.0.1", "", "[bad"]
)
def test_a_name_that_somebody_else_points_here_opens_nothing(shop, host):
    answer = shop.request("GET", "/healthz", headers={"Host": host})
    assert answer.status_code in (400, 421)


def test_behind_tls_browsers_are_told_to_stay_there():
    from dpmarket.web.guard import Guard

    async def nothing(scope, receive, send): ...

    assert "Strict-Transport-Security" in Guard(nothing, "https://market.example", 1000)._headers


def link_of(shop):
    made = new_member(shop.market, "Somebody", ["auditor"], shop.url)
    return made.link.removeprefix(shop.url)


def test_a_mail_scanner_that_opens_a_link_does_not_use_it_up(shop):
    (seller,) = shop.invite(shop.open())
    for path in (*[f"/i/{seller}"] * 2, *[link_of(shop)] * 2):
        seen = shop.request("GET", path)
        assert seen.status_code == 200
        assert "set-cookie" not in seen.headers
        assert f'<form method="post" action="{path}">' in seen.text
    assert shop.with_token(seller).me()["state"] == "invited"
    answer = shop.request("POST", path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/signed-in")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "Secure", "Path=/", "SameSite=lax", "Max-Age=43200"):
        assert part in cookie
    assert "Domain" not in cookie
    assert shop.request("POST", path).status_code == 404  # members' links sign in once


def test_a_session_ends_after_twelve_hours_and_a_link_after_a_week(shop):
    cookie = shop.request("POST", link_of(shop)).headers["set-cookie"].split(";")[0]
    late = link_of(shop)
    shop.clock.pass_(hours=12)
    assert shop.request("GET", "/signed-in", headers={"Cookie": cookie}).status_code == 401
    shop.clock.pass_(days=8)
    assert shop.request("POST", late).status_code == 404


def test_a_connection_that_sends_no_whole_head_is_closed_and_others_are_kept(shop, monkeypatch):
    monkeypatch.setattr(running, "HEAD_SECONDS", 0.5)
    place = ("127.0.0.1", int(shop.url.rsplit(":", 1)[1]))
    whole = f"GET /healthz HTTP/1.1\r\nHost: {place[0]}\r\n\r\n".encode()
    with socket.create_connection(place) as silent, socket.create_connection(place) as slow:
        with socket.create_connection(place) as quick:
            for _ in range(8):
                with contextlib.suppress(OSError):
                    slow.sendall(whole[:1])
                quick.sendall(whole)
                answer = b""
                while b"alive" not in answer:
                    answer += quick.recv(10_000)
                    assert answer
                time.sleep(0.1)
        for one in (silent, slow):
            one.settimeout(10.0)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
