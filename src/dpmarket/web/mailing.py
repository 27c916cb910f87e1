"""Send what waits in the outbox by SMTP, over TLS: plain text with a link, and no other private value."""

from __future__ import annotations

import html
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email import policy
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from dpmarket.errors import FileProblem
from dpmarket.market import Desk, Mail, claim_mail, end_mail, enter_due, put_off_mail
from dpmarket.web.guard import LOOPBACK
from dpmarket.web.pages.texts import texts_for
from dpmarket.web.settings import Settings
from dpmarket.web.watching import log_event

_SECONDS = 30.0
_AT_ONCE = 100
"""Mails of one connection: then other jobs have their turn."""


def has_smtp(settings: Settings) -> bool:
    """Whether mails can be sent."""
    return settings.smtp_url is not None


def check_smtp(settings: Settings) -> None:
    """Refuse settings by which no mail could be sent, or only in clear over a network.

    Raises
    ------
    FileProblem
        Without a value of the settings: an address may hold a password.
    """
    if settings.smtp_url is None:
        return
    parts = urlsplit(settings.smtp_url.get_secret_value())
    if parts.scheme not in ("smtp", "smtps", "smtp+plain") or not parts.hostname:
        raise FileProblem("expected smtp_url as smtps://host, or smtp://host for STARTTLS.")
    if parts.scheme == "smtp+plain" and parts.hostname not in LOOPBACK:
        raise FileProblem("smtp+plain is for a server on this machine only: expected smtps:// or smtp://.")
    if settings.mail_from is None:
        raise FileProblem("expected mail_from, the address that mails come from, beside smtp_url.")


def send_due(desk: Desk, settings: Settings, now: datetime) -> int:
    """Send mails that are due; return how many were sent. Without SMTP, none are entered or sent.

    Raises
    ------
    FileProblem
        The database or the operator's key cannot be used. What was not sent is sent later.
    """
    if not has_smtp(settings):
        return 0
    enter_due(desk, now, timedelta(hours=settings.reminder_hours))
    first = claim_mail(desk, now)
    if first is None:
        return 0
    sent, mail = 0, first
    try:
        with _connected(settings) as server:
            for left in range(_AT_ONCE, 0, -1):
                sent += _sent(desk, settings, server, mail, now)
                following = claim_mail(desk, now) if left > 1 else None
                if following is None:
                    break
                mail = following
    except (OSError, smtplib.SMTPException) as problem:  # before this mail was given to anybody
        put_off_mail(desk, mail, type(problem).__name__, now)
        log_event("mail failed", error=type(problem).__name__)
    return sent


def message_of(mail: Mail, settings: Settings) -> EmailMessage:
    """Return a mail as it is sent: with the same identity each time, and nothing private but its link."""
    texts = texts_for(settings.mail_language)
    made = EmailMessage()
    made["From"], made["To"] = settings.mail_from, mail.address
    made["Subject"] = html.unescape(texts(f"mail.{mail.kind}_subject"))
    made["Message-ID"] = f"<{mail.id}@{urlsplit(settings.public_url).hostname}>"
    made["Auto-Submitted"] = "auto-generated"
    link = f"{settings.public_url}/i/{mail.token}"
    made.set_content(html.unescape(texts(f"mail.{mail.kind}_text", link=link)), cte="quoted-printable")
    return made


def _sent(desk: Desk, settings: Settings, server: smtplib.SMTP, mail: Mail, now: datetime) -> int:
    """Give one mail to a server; what is not known to be refused is never sent twice."""
    message = message_of(mail, settings)
    for code, answer in ((server.mail, str(settings.mail_from)), (server.rcpt, mail.address)):
        told, _ = code(answer)
        if told >= 400:
            server.rset()
            if code == server.mail:  # it is the sender who is refused: an operator can mend that
                put_off_mail(desk, mail, f"smtp {told}", now)
            else:
                _refused(desk, mail, told, now)
            return 0
    try:
        told, _ = server.data(message.as_bytes(policy=policy.SMTP))
    except smtplib.SMTPDataError as refusal:  # it did not want to hear the mail
        told = refusal.smtp_code
    except (OSError, smtplib.SMTPException) as problem:  # its last word is lost: perhaps it has the mail
        end_mail(desk, mail, "unknown", type(problem).__name__)
        log_event("mail unknown", kind=mail.kind, error=type(problem).__name__)
        raise _Over from None
    if told >= 400:
        _refused(desk, mail, told, now)
        return 0
    end_mail(desk, mail, "sent")
    return 1


class _Over(Exception):
    """A connection is of no use any more, and its mail has been entered."""


def _refused(desk: Desk, mail: Mail, code: int, now: datetime) -> None:
    if code >= 500:
        end_mail(desk, mail, "failed", f"smtp {code}")
    else:
        put_off_mail(desk, mail, f"smtp {code}", now)


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
        server.quit()
    except _Over:
        pass
    finally:
        server.close()
