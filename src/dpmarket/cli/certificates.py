"""``dpmarket commit``, ``certify``, ``receipts``, ``verify``, ``signing-key``: prove, and check."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpmarket import files
from dpmarket.cli.arguments import OptionalOutput, OutputOption, Spoken, Written, WrittenOfCampaign, command

CertificateFile = Annotated[Path, typer.Argument(help="The certificate that 'dpmarket certify' wrote.")]


@command
def commit(given: WrittenOfCampaign, *, output: OutputOption = Path("commitment.json")) -> None:
    """Fix a campaign's rules before anybody reports: a file, its digest and the time, to be published.

    Publish the file, or at least the digest, where others store it with its date, before the first report
    comes in. The certificate names it, and 'verify --commitment' checks that nothing was changed.

    :param output: Write the rules to this .json file; publish it.
    """
    from dpmarket.campaign.file_quotes import commit_file
    from dpmarket.certificates.description import rules_digest

    place = given.place
    place.refuse_output(output, overwrite=given.force)
    text, committed_at = commit_file(place)
    files.write_bytes(output, text.encode() + b"\n", overwrite=given.force)
    digest = rules_digest(text)
    rows = [("digest", digest), ("time", committed_at), ("written to", str(output))]
    data = {"digest": digest, "committed_at": committed_at, "commitment": str(output)}
    note = f"Publish {output}, or at least its digest, before anybody reports."
    given.voice(output).tell("Rules fixed", rows, data, note)


@command
def certify(
    given: WrittenOfCampaign, *, output: OutputOption, openings: Path, key: Path | None = None
) -> None:
    """Certify what was quoted, paid and spent, and the model, for others to verify.

    The certificate is public. The openings are not: they hold every seller's line.

    :param output: Write the certificate to this .json file.
    :param openings: Write every seller's line, and the salt that hides it, to this .json file: confidential.
    :param key: Sign with this key of 'dpmarket signing-key', in a file .sig beside the certificate.
    """
    from dpmarket.campaign.file_campaign import certify_file
    from dpmarket.certificates.files import write_certificate
    from dpmarket.certificates.signature import sign

    place, inputs = given.place, [key] if key else []
    signature = output.with_name(output.name + ".sig")
    place.refuse_output(output, *inputs, overwrite=given.force)
    place.refuse_output(signature, *inputs, overwrite=given.force or key is None)
    place.refuse_output(openings, *inputs, overwrite=False)
    voice = given.voice()
    with voice.progress() as progress:
        progress("Certifying", 0.1)
        certificate = certify_file(place)
        signed = None if key is None else sign(certificate, key)
        progress("Writing the certificate", 0.6)
        write_certificate(certificate, output, openings, overwrite=given.force)
    rows = [("sellers", f"{len(certificate.lines):,}"), ("digest", certificate.digest)]
    if signed is not None:
        files.write_bytes(signature, signed, overwrite=given.force)
        rows.append(("signature", str(signature)))
    data = {"sellers": len(certificate.lines), "digest": certificate.digest, "certificate": str(output)}
    note = f"The certificate is in {output}. Keep {openings} secret: it opens every line."
    voice.tell("Certified", rows, data, note)


@command
def receipts(
    given: Written, certificate: Path | None = None, openings: Path | None = None, *,
    output: OptionalOutput = None, page: Path | None = None,
) -> None:  # fmt: skip
    """Write every seller's receipt, with which they can check their own line of the certificate.

    A receipt is as confidential as the seller's cost; index.csv says which file is whose. With --page alone
    only the page is written: the same file for everybody, which sellers can get from others than the buyer.

    :param certificate: The certificate that 'dpmarket certify' wrote.
    :param openings: The openings that 'dpmarket certify' wrote.
    :param output: A new folder for the receipts, one file each.
    :param page: Write the page on which sellers check their receipts in a browser, an .html file.
    """
    import hashlib

    from dpmarket.campaign.certificate import write_receipts
    from dpmarket.certificates.files import read_certificate
    from dpmarket.certificates.receipt_page import receipt_page
    from dpmarket.errors import InvalidInput

    voice = given.voice()
    rows: list[tuple[str, str]] = []
    data: dict[str, object] = {}
    inputs = [file for file in (certificate, openings, output) if file is not None]
    if len(inputs) not in (0, 3) or (not inputs and page is None):
        raise InvalidInput("expected a certificate, its openings and --output, or --page alone.")
    if page is not None:
        files.refuse_same(page, *inputs)
        if not given.force:
            files.refuse_existing(page)
    if certificate is not None and openings is not None and output is not None:
        with voice.progress() as progress:
            progress("Reading the certificate", 0.0)
            found = read_certificate(certificate, openings)
            count = write_receipts(found, output, progress)
        rows, data = [("receipts", f"{count:,}"), ("written to", str(output))], {"receipts": count}
    if page is not None:
        content = receipt_page()
        files.write_bytes(page, content, overwrite=given.force)
        digest = hashlib.sha256(content).hexdigest()
        rows += [("page", str(page)), ("the page's digest", digest)]
        data |= {"page": str(page), "digest": digest}
    voice.tell("Receipts", rows, data)


@command
def verify(
    given: Spoken, certificate: CertificateFile, *, receipt: Path | None = None, ask_cost: bool = False,
    digest: str | None = None, signature: Path | None = None, public_key: str | None = None,
    openings: Path | None = None, commitment: Path | None = None, reports: Path | None = None,
    rules: Annotated[Path | None, typer.Option("--rules", "-m")] = None,
) -> None:  # fmt: skip
    """Check a certificate without trusting who made it; exit code 1 if any check fails.

    What can be checked depends on what is given. The checks share no code with the certifying program.

    :param receipt: A seller's receipt: checks that one line.
    :param ask_cost: With --receipt: ask for your own cost, to check the payment. It is not stored or sent.
    :param digest: The certificate's digest as known from elsewhere: checks that it is the same.
    :param signature: The signature (.sig) beside the certificate; with --public-key.
    :param public_key: The signer's public key, 64 hexadecimal digits, as known from elsewhere.
    :param openings: The buyer's openings: checks every line.
    :param commitment: The rules as they were published before the reports: checks that nothing was changed.
    :param reports: With --openings: the frozen reports, the table that was quoted.
    :param rules: With --reports: the rules file that names their columns; left out: first the ids, then the
        costs.
    """
    from dpmarket.certificates.files import check_certificate

    if rules is not None and reports is None:
        raise typer.BadParameter("--rules needs --reports: it names their columns.")
    cost = None
    if ask_cost:
        cost = typer.prompt(
            "Your cost, as you reported it", type=float, hide_input=sys.stdin.isatty(), err=True
        )
    voice = given.voice()
    with voice.progress() as progress:
        progress("Checking", 0.0)
        frozen = None
        if reports is not None:
            from dpmarket.campaign.file_reports import reports_for_verifier

            frozen = reports_for_verifier(reports, rules)
        result = check_certificate(
            certificate,
            receipt=receipt,
            cost=cost,
            digest=digest,
            signature=signature,
            public_key=public_key,
            openings=openings,
            reports=frozen,
            commitment=commitment,
        )
    lines = [f"{check.verdict:9} {check.name}: {check.detail}" for check in result.checks]
    left = sum(check.verdict == "skipped" for check in result.checks)
    title = f"No check failed; {left} skipped" if left else "No check failed"
    if not result.passed:
        title = "A CHECK FAILED: do not trust this certificate"
    voice.list(title, lines, result.to_dict())
    if not result.passed:
        raise typer.Exit(1)


@command
def signing_key(given: Spoken, key: Path) -> None:
    """Make an Ed25519 key for signing certificates, and tell its public part.

    :param key: Where to write the secret key; an existing file is never overwritten.
    """
    from dpmarket.certificates.signature import new_signing_key

    public = new_signing_key(key)
    note = f"The secret key is in {key}; publish the public key where sellers can find it."
    given.voice().tell("A new key", [("public key", public)], {"public_key": public}, note)
