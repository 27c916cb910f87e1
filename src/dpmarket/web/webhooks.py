"""Send webhooks: over TLS, to public addresses only, following nothing."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from urllib.parse import urlsplit

from dpmarket.campaign.database import Market
from dpmarket.campaign.hooks import pending, took
from dpmarket.campaign.jobs import Job
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.web.settings import Settings

_SECONDS = 10.0
_GONE = 410
_UNICAST = ipaddress.ip_network("2000::/3")  # other IPv6 addresses are local, or ways to some IPv4 address


class Gone(DpmarketError):
    """An address wants no events any more."""


class Private(DpmarketError):
    """An address is none, not on the public internet, or not of https."""


def send_hooks(market: Market, job: Job, settings: Settings) -> None:
    """Send a webhook's events one by one; each that was taken is not sent again."""
    url, messages = pending(market, job.subject)
    for one in messages:
        try:
            status = _post(url, one.body, one.headers, private=settings.private_hooks)
        except (OSError, http.client.HTTPException):
            raise FileProblem("the address of a webhook cannot be reached.") from None
        except ValueError:
            raise Private("the address of a webhook is none.") from None
        if status == _GONE:
            raise Gone("the address wants no more.")
        if not 200 <= status < 300:
            raise FileProblem("the address of a webhook did not take an event.")
        took(market, job.subject, one.number)


def _post(url: str, body: bytes, headers: dict[str, str], *, private: bool) -> int:
    """Return the status of one request. The address that was looked at is the one that is called."""
    parts = urlsplit(url)
    host, secure = str(parts.hostname), parts.scheme == "https"
    if not secure and not private:
        raise Private("expected https")
    port = parts.port or (443 if secure else 80)
    found = {str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    if not private and not all(is_public(one) for one in found):
        raise Private("expected a public address")
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    plain = socket.create_connection((min(found), port), _SECONDS)
    try:
        wrap = ssl.create_default_context().wrap_socket
        connection.sock = wrap(plain, server_hostname=host) if secure else plain
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
        plain.close()


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet.

    Examples
    --------
    >>> [is_public(one) for one in ("8.8.8.8", "10.0.0.1", "::ffff:127.0.0.1", "2002:7f00:1::", "fec0::1")]
    [True, False, False, False, False]
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found.sixtofour is not None or found.teredo is not None or found not in _UNICAST:
            return False
    return found.is_global and not found.is_multicast
