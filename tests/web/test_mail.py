"""Mails: invitations, reminders and receipts by SMTP, each once as far as SMTP permits, and links only."""

import contextlib
import email
import socket
import ssl
from datetime import timedelta

import pytest
import sqlalchemy as sa
from aiosmtpd.controller import Controller

from dpmarket.campaign import mail as mails_of
from dpmarket.campaign import schema
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.jobs import MOST_ATTEMPTS, claim_job, retry
from dpmarket.campaign.mail import KINDS, Mail, enter_mails
from dpmarket.campaign.views import job_counts
from dpmarket.campaign.worker import work
from dpmarket.errors import FileProblem
from dpmarket.web import outgoing
from dpmarket.web.outgoing import check_smtp
from dpmarket.web.settings import Settings
from dpmarket.web.worker import methods_of
from support.shop import SOLD, Clock, open_shop


class Box:
    """A mail server that keeps what it gets, and answers as it is told."""

    def __init__(self):
        self.mails, self.answers = [], []
        self.rcpt = []

    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = self.rcpt.pop(0) if self.rcpt else "250 OK"
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server, session, envelope):
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer == "gone":  # it has the mail, and nobody is told
            self.mails.append(email.message_from_bytes(envelope.content))
            server.transport.abort()
            return "250 OK"
        if answer.startswith("250"):
            self.mails.append(email.message_from_bytes(envelope.content))
        return answer

    def take(self):
        found, self.mails = self.mails, []
        return found


@contextlib.contextmanager
def server_of(box, **options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def box():
    return Box()


@pytest.fixture(scope="module")
def shop(tmp_path_factory, box):
    with server_of(box) as port:
        told = {"smtp_url": f"smtp+plain://127.0.0.1:{port}", "mail_from": "market@example.org"}
        with open_shop(tmp_path_factory.mktemp("mail"), **told) as opened:
            yield set_up(opened, **told)


def set_up(shop, **settings):
    """Let a shop's mails be sent as settings say."""
    chosen = Settings(folder=shop.settings.folder, state=shop.settings.state, public_url=shop.url, **settings)
    shop.settings = chosen
    return shop


def send(shop):
    """Send what is due; return how many mails were sent."""
    before = sum(counts(shop, kind).get("done", 0) for kind in KINDS)
    enter_mails(shop.market, timedelta(hours=24))
    work(shop.market, methods_of(shop.settings), ("mail",))
    return sum(counts(shop, kind).get("done", 0) for kind in KINDS) - before


def link_in(mail):
    text = mail.get_payload(decode=True).decode()
    (line,) = [line for line in text.splitlines() if line.startswith("http")]
    return line


def counts(shop, kind):
    with shop.market.look() as c:
        found = job_counts(c)
    return {state: number for (name, state), number in found.items() if name == kind}


def test_who_has_an_address_is_mailed_their_link_and_nobody_else_sees_it(shop, box):
    campaign = shop.open()
    before = counts(shop, "invitation").get("done", 0)
    made = shop.members["operator"].invite(campaign, ["ann@example.org", "panel 7", "bob@example.org"])
    tokens = {one["id"]: one["token"] for one in made}
    assert tokens["ann@example.org"] is None
    assert tokens["panel 7"]
    assert send(shop) == 2
    assert send(shop) == 0
    mails = box.take()
    assert sorted(mail["To"] for mail in mails) == ["ann@example.org", "bob@example.org"]
    assert {mail["From"] for mail in mails} == {"market@example.org"}
    assert len({mail["Message-ID"] for mail in mails}) == 2
    links = {link_in(mail) for mail in mails}
    assert len(links) == 2
    for link in links:
        assert link.startswith(f"{shop.url}/i/")
        seller = shop.with_token(link.rsplit("/", 1)[1])
        assert seller.me()["state"] == "invited"
    assert counts(shop, "invitation")["done"] == before + 2
    content = b"".join(path.read_bytes() for path in (shop.settings.folder / "data").iterdir())
    for private in ("ann@example", *(link.rsplit("/", 1)[1] for link in links)):
        assert private.encode() not in content
        assert all(private not in mail["Subject"] for mail in mails)


def test_a_reminder_goes_out_once_to_who_has_not_answered(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["idle@example.org", "done@example.org", "slow@example.org"])
    send(shop)
    tokens = {mail["To"]: link_in(mail).rsplit("/", 1)[1] for mail in box.take()}
    shop.with_token(tokens["done@example.org"], *SOLD)
    shop.with_token(tokens["slow@example.org"], *SOLD[:4])  # has accepted, and owes a record
    send(shop)
    box.take()  # of other campaigns, whose time ends earlier
    shop.clock.pass_(days=5)
    send(shop)
    assert to_own(box, tokens) == []
    shop.clock.pass_(days=1, hours=1)
    send(shop)
    (mail,) = to_own(box, tokens)
    assert (mail["To"], mail["Subject"]) == ("idle@example.org", "Your invitation ends soon")
    assert shop.with_token(link_in(mail).rsplit("/", 1)[1]).me()["state"] == "invited"
    shop.clock.pass_(days=2)
    send(shop)
    assert [mail["To"] for mail in to_own(box, tokens)] == ["slow@example.org"]
    send(shop)
    assert to_own(box, tokens) == []


def to_own(box, addresses):
    """Return the mails to some people."""
    return [mail for mail in box.take() if mail["To"] in addresses]


def test_a_receipt_is_told_of_when_it_is_there(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["seller@example.org"])
    send(shop)
    token = link_in(box.take()[-1]).rsplit("/", 1)[1]
    shop.with_token(token, *SOLD)
    shop.clock.pass_(days=10)
    work(shop.market, methods_of(shop.settings), ("work",))
    assert shop.members["buyer"].campaign(campaign)["state"] == "released"
    send(shop)
    (mail,) = [mail for mail in box.take() if mail["To"] == "seller@example.org"]
    assert mail["Subject"] == "Your receipt is ready"
    assert shop.with_token(token).receipt()
    assert send(shop) == 0


def test_who_answered_too_late_is_not_told_of_a_cancelled_campaign(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["soon@example.org", "late@example.org"])
    send(shop)
    links = {mail["To"]: link_in(mail).rsplit("/", 1)[1] for mail in box.take()}
    shop.with_token(links["soon@example.org"], *SOLD)
    shop.with_token(links["late@example.org"], *SOLD[:-1])
    shop.clock.pass_(days=10)
    work(shop.market, methods_of(shop.settings), ("work",))
    send(shop)
    subjects = [(mail["To"], mail["Subject"]) for mail in box.take()]
    assert ("soon@example.org", "Your receipt is ready") in subjects
    assert "late@example.org" not in dict(subjects)


def test_what_another_worker_has_entered_and_sent_meanwhile_is_not_sent_again(shop, box, monkeypatch):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["twice@example.org"])
    assert send(shop) == 1
    shop.members["buyer"].act("cancel", campaign)
    assert send(shop) == 1
    box.take()
    job = schema.job.c  # whom this worker saw before the other one was done
    seen = sa.select(job.subject).where(job.kind == "over")
    monkeypatch.setattr(mails_of, "_addressed", lambda condition, kind: seen.where(job.kind == kind))
    assert send(shop) == 0
    assert box.take() == []


def test_what_a_server_does_not_take_now_is_tried_later_and_what_it_never_takes_is_not(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["later@example.org"])
    box.rcpt = ["451 come back"]
    assert send(shop) == 0
    assert send(shop) == 0
    shop.clock.pass_(seconds=31)
    box.answers = ["452 no room"]
    assert send(shop) == 0
    shop.clock.pass_(seconds=61)
    assert send(shop) == 1
    assert [mail["To"] for mail in box.take()] == ["later@example.org"]
    failed = counts(shop, "invitation").get("failed", 0)
    shop.members["operator"].invite(campaign, ["nobody@example.org"])
    box.rcpt = ["550 no such box"]
    assert send(shop) == 0
    shop.clock.pass_(days=1)
    assert send(shop) == 0
    assert counts(shop, "invitation")["failed"] == failed + 1


def test_a_mail_of_a_worker_that_died_is_not_sent_again(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["died@example.org"])
    unknown = counts(shop, "invitation").get("unknown", 0)
    assert claim_job(shop.market, ("mail",), ("invitation",), shop.clock()) is not None  # and nothing more
    shop.clock.pass_(minutes=11)
    assert send(shop) == 0
    assert box.take() == []
    assert counts(shop, "invitation")["unknown"] == unknown + 1


def test_a_cancelled_campaign_is_told_to_everybody_with_an_address_who_has_not_left(shop, box):
    campaign = shop.open()
    shop.members["operator"].invite(campaign, ["told@example.org", "left@example.org"])
    shop.members["operator"].act("withdraw_people", campaign, ids=["left@example.org"])
    send(shop)
    shop.members["buyer"].act("cancel", campaign)
    send(shop)
    subjects = [mail["Subject"] for mail in box.take() if mail["To"] == "told@example.org"]
    assert subjects[-1] == "The campaign was cancelled"
    assert [mail for mail in box.take() if mail["To"] == "left@example.org"] == []


def test_mails_wait_for_a_server_and_are_sent_again_when_an_operator_wants_it(tmp_path, box):
    away = {"smtp_url": "smtp+plain://127.0.0.1:1", "mail_from": "market@example.org"}
    with server_of(box) as port, open_shop(tmp_path, **away) as shop:
        set_up(shop, **away)
        campaign = shop.open()
        shop.members["operator"].invite(campaign, ["ann@example.org"])
        for _ in range(MOST_ATTEMPTS["mail"]):
            assert counts(shop, "invitation") == {"waiting": 1}
            assert send(shop) == 0
            shop.clock.pass_(hours=1)
        assert counts(shop, "invitation") == {"failed": 1}
        set_up(shop, smtp_url=f"smtp+plain://127.0.0.1:{port}", mail_from="market@example.org")
        assert shop.market.run(retry, OWNER) == 1
        assert send(shop) == 1
        shop.members["operator"].invite(campaign, ["perhaps@example.org"])
        box.answers = ["gone"]
        assert send(shop) == 0
        assert shop.market.run(retry, OWNER) == 0
        assert shop.market.run(retry, OWNER, perhaps_sent=True) == 1
        assert send(shop) == 1
    assert [mail["To"] for mail in box.take()] == ["ann@example.org", *["perhaps@example.org"] * 2]


def test_a_network_is_never_used_in_clear(box):
    for wrong in ("smtp+plain://mail.example.org", "http://mail.example.org", "smtps://"):
        with pytest.raises(FileProblem, match="smtp") as caught:
            check_smtp(Settings(smtp_url=wrong, mail_from="a@example.org"))
        assert "example.org" not in str(caught.value)
    with pytest.raises(FileProblem, match="mail_from"):
        check_smtp(Settings(smtp_url="smtps://user:canary@mail.example.org"))
    assert "canary" not in repr(Settings(smtp_url="smtps://user:canary@mail.example.org"))
    with server_of(box) as port, pytest.raises(FileProblem, match="cannot be reached"):  # has no STARTTLS
        outgoing.send(MAIL, Settings(smtp_url=f"smtp://127.0.0.1:{port}", mail_from="a@example.org"))
    assert box.take() == []


MAIL = Mail(1, "invitation", "ann@example.org", "en", "x" * 43)


def test_starttls_and_tls_with_a_certificate_that_is_trusted(tmp_path, box):
    authority, context = certificate(tmp_path)
    for scheme, options in (
        ("smtp", {"tls_context": context, "require_starttls": True}),
        ("smtps", {"ssl_context": context}),
    ):
        with server_of(box, **options) as port:
            told = {"smtp_url": f"{scheme}://localhost:{port}", "mail_from": "a@example.org"}
            with pytest.raises(FileProblem, match="cannot be reached"):  # nobody knows this certificate
                outgoing.send(MAIL, Settings(**told))
            outgoing.send(MAIL, Settings(smtp_ca_file=authority, **told))
    assert [mail["To"] for mail in box.take()] == ["ann@example.org"] * 2


def certificate(folder):
    """Make a certificate for localhost; return its file and a server's context."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), Clock().now
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path, private = folder / "authority.pem", folder / "key.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, private)
    return path, context
