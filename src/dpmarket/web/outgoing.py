"""What goes out: mails by SMTP over TLS, and webhooks, over TLS to public addresses only."""

import contextlib
import html
import http.client
import ipaddress
import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime, formataddr
from urllib.parse import unquote, urlsplit

from dpmarket.campaign.database import Market
from dpmarket.campaign.hooks import pending, took
from dpmarket.campaign.jobs import Job, PerhapsSent
from dpmarket.campaign.mail import Mail, fill_in
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.web.logs import log_event
from dpmarket.web.pages.texts import texts_for
from dpmarket.web.settings import LOOPBACK, Settings

_SECONDS = 30.0


def check_smtp(settings: Settings) -> None:
    """Refuse settings by which no mail could be sent, or only in clear over a network."""
    if settings.smtp_url is None:
        return
    parts = urlsplit(settings.smtp_url.get_secret_value())
    if parts.scheme not in ("smtp", "smtps", "smtp+plain") or not parts.hostname:
        raise FileProblem("expected smtp_url as smtps://host, or smtp://host for STARTTLS.")
    if parts.scheme == "smtp+plain" and parts.hostname not in LOOPBACK:
        raise FileProblem("smtp+plain is for a server on this machine only: expected smtps:// or smtp://.")
    if settings.mail_from is None:
        raise FileProblem("expected mail_from, the address that mails come from, beside smtp_url.")


class Refused(DpmarketError):
    """A server refused a mail for good."""


def send(mail: Mail, settings: Settings) -> None:
    """Send one mail by SMTP, over TLS."""
    try:
        with _connected(settings) as server:
            _hand_over(server, mail, settings)
    except (OSError, smtplib.SMTPException) as problem:  # before the mail was given to anybody
        log_event("mail failed", error=type(problem).__name__)
        raise FileProblem("the mail server cannot be reached.") from None


def message_of(mail: Mail, settings: Settings) -> EmailMessage:
    """Return a mail as it is sent: with the same identity each time, and nothing private but its link."""
    texts = texts_for(mail.language or settings.mail_language)
    parts = urlsplit(settings.public_url)
    path, contact = "login" if mail.kind == "login" else "i", settings.contact or ""
    link = f"{settings.public_url}/{path}/{mail.token}"
    if mail.words is not None:
        subject, _, body = fill_in(mail.words, link, contact).partition("\n\n")
    else:
        subject = html.unescape(texts(f"mail.{mail.kind}_subject"))
        body = html.unescape(texts(f"mail.{mail.kind}_text", link=link))
        body += f"\n{html.unescape(texts('mail.contact', contact=contact))}\n" if contact else ""
    made = EmailMessage()
    made["From"] = formataddr((settings.mail_name or "", str(settings.mail_from)))
    made["To"], made["Subject"] = mail.address, " ".join(subject.split())
    made["Date"] = format_datetime(datetime.now(UTC))
    made["Message-ID"] = f"<{mail.kind}-{mail.id}@{parts.hostname}>"
    made["Auto-Submitted"] = "auto-generated"
    if mail.kind != "login":
        stop = f"{settings.public_url}/stop/{mail.token}"
        body += f"\n{html.unescape(texts('mail.stop', link=stop))}\n"
        if parts.scheme == "https":  # mail programs press it for their reader (RFC 8058)
            made["List-Unsubscribe"] = f"<{stop}>"
            made["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    made.set_content(body, cte="quoted-printable")
    return made


def _hand_over(server: smtplib.SMTP, mail: Mail, settings: Settings) -> None:
    message = message_of(mail, settings)
    for code, answer in ((server.mail, str(settings.mail_from)), (server.rcpt, mail.address)):
        status, _ = code(answer)
        if status >= 400:
            server.rset()
            # A refused sender is a mistake of the settings, which an operator can mend.
            _refuse(status, for_good=code == server.rcpt)
    try:
        status, _ = server.data(message.as_bytes(policy=policy.SMTP))
    except smtplib.SMTPDataError as refusal:  # it did not want to hear the mail
        status = refusal.smtp_code
    except (OSError, smtplib.SMTPException) as problem:
        log_event("mail unknown", kind=mail.kind, error=type(problem).__name__)
        raise PerhapsSent("the server's last answer is lost.") from None
    if status >= 400:
        _refuse(status, for_good=True)


def _refuse(status: int, *, for_good: bool) -> None:
    if for_good and status >= 500:
        raise Refused(f"smtp {status}")
    raise FileProblem(f"the mail server answered {status}.")


@contextmanager
def _connected(settings: Settings) -> Iterator[smtplib.SMTP]:
    assert settings.smtp_url is not None
    parts = urlsplit(settings.smtp_url.get_secret_value())
    trusted = None if settings.smtp_ca_file is None else str(settings.smtp_ca_file)
    context = ssl.create_default_context(cafile=trusted)
    host, port = str(parts.hostname), parts.port
    server: smtplib.SMTP
    if parts.scheme == "smtps":
        server = smtplib.SMTP_SSL(host, port or 465, timeout=_SECONDS, context=context)
    else:
        server = smtplib.SMTP(host, port or (25 if parts.scheme == "smtp+plain" else 587), timeout=_SECONDS)
    try:
        server.ehlo_or_helo_if_needed()
        if parts.scheme == "smtp":
            server.starttls(context=context)  # raises where the server has none: never in clear
            server.ehlo()
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
        yield server
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        server.close()


_HOOK_SECONDS = 10.0
_GONE = 410
_UNICAST = ipaddress.ip_network("2000::/3")  # other IPv6 addresses are local, or ways to some IPv4 address


class Gone(DpmarketError):
    """An address wants no events any more."""


class Private(DpmarketError):
    """An address is none, not on the public internet, or not of https."""


def send_hooks(market: Market, job: Job, settings: Settings) -> None:
    """Send a webhook's events one by one; each that was taken is not sent again."""
    url, messages = pending(market, job.subject)
    for number, body, headers in messages:
        try:
            status = _post(url, body, headers, private=settings.private_hooks)
        except (OSError, http.client.HTTPException):
            raise FileProblem("the address of a webhook cannot be reached.") from None
        except ValueError:
            raise Private("the address of a webhook is none.") from None
        if status == _GONE:
            raise Gone("the address wants no more.")
        if not 200 <= status < 300:
            raise FileProblem("the address of a webhook did not take an event.")
        took(market, job.subject, number)


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
    connection = http.client.HTTPConnection(host, port, timeout=_HOOK_SECONDS)
    plain = socket.create_connection((min(found), port), _HOOK_SECONDS)
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
