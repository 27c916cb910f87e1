"""``dpmarket certify``, ``receipts``, ``verify`` and ``signing-key``: prove what was done, and check it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, LedgerOption, MarketOption, QuietFlag

CertificateFile = Annotated[Path, typer.Argument(help="The certificate that 'dpmarket certify' wrote.")]


def certify(
    quotes: Annotated[
        Path,
        typer.Option("--quotes", help="The quotes that were trained on, as 'dpmarket quote' wrote them."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the certificate to this .json file.")],
    openings: Annotated[
        Path,
        typer.Option(
            "--openings",
            help="Write every seller's line, and the salt that hides it, to this .json file: confidential.",
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            help="Sign with this key of 'dpmarket signing-key'; the signature goes beside the certificate, "
            "with .sig after its name.",
        ),
    ] = None,
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Certify what was promised, paid and spent, and the model, for others to verify.

    The certificate is public. The openings are not: they hold every seller's line.
    """
    from dpmarket.campaign import certify_quotes, place_of, read_market
    from dpmarket.certificates import sign, write_certificate
    from dpmarket.cli.render import Voice
    from dpmarket.files import refuse_existing, refuse_same, write_bytes

    signature = output.with_name(output.name + ".sig")
    place = place_of(market, read_market(market), ledger)
    for path in (output, signature, openings):
        refuse_same(path, market, *place.files, quotes, *([key] if key else []))
    if not force:
        for path in (output, *([signature] if key else [])):
            refuse_existing(path)
    refuse_existing(openings)
    voice = Voice(as_json, quiet)
    with voice.progress() as progress:
        progress("Certifying", 0.1)
        certificate = certify_quotes(market, quotes, ledger=ledger)
        signed = None if key is None else sign(certificate, key)
        progress("Writing the certificate", 0.6)
        write_certificate(certificate, output, openings, force)
    rows = [("sellers", f"{len(certificate.lines):,}"), ("digest", certificate.digest)]
    if signed is not None:
        write_bytes(signature, signed, overwrite=force)
        rows.append(("signature", str(signature)))
    data = {"sellers": len(certificate.lines), "digest": certificate.digest, "certificate": str(output)}
    note = f"The certificate is in {output}. Keep {openings} secret: it opens every line."
    voice.tell("Certified", rows, data, note)


def receipts(
    certificate: CertificateFile,
    openings: Annotated[Path, typer.Argument(help="The openings that 'dpmarket certify' wrote.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="A .csv or .parquet file for all receipts, or a new folder for one file each.",
        ),
    ],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Write every seller's receipt, with which they can check their own line of the certificate.

    It holds their line, its salt, its path in the certificate, and the digest. A receipt is as confidential
    as the seller's cost. In a folder, index.csv says which file is whose.
    """
    from dpmarket.campaign import write_receipts_folder, write_receipts_table
    from dpmarket.certificates import read_certificate
    from dpmarket.cli.render import Voice

    voice = Voice(as_json, quiet)
    with voice.progress() as progress:
        progress("Reading the certificate", 0.0)
        found = read_certificate(certificate, openings)
        if output.suffix.lower() in (".csv", ".parquet"):
            count = write_receipts_table(found, output, force)
        else:
            count = write_receipts_folder(found, output, progress)
    voice.tell("Receipts", [("receipts", f"{count:,}"), ("written to", str(output))], {"receipts": count})


def verify(
    certificate: CertificateFile,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="A seller's receipt: checks that one line.")
    ] = None,
    ask_cost: Annotated[
        bool,
        typer.Option(
            "--ask-cost",
            help="With --receipt: ask for your own cost, to check the payment. It is not stored or sent.",
        ),
    ] = False,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", help="The certificate's digest as known from elsewhere: checks that it is the same."
        ),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", help="The signature (.sig) beside the certificate; with --public-key."),
    ] = None,
    public_key: Annotated[
        str | None,
        typer.Option(
            "--public-key", help="The signer's public key, 64 hexadecimal digits, as known from elsewhere."
        ),
    ] = None,
    openings: Annotated[
        Path | None,
        typer.Option("--openings", help="The buyer's openings: checks every line."),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            "--reports",
            help="With --openings: disclosed reports (columns seller, cost); checks payments.",
        ),
    ] = None,
    payments_checked: Annotated[
        int | None,
        typer.Option(
            "--payments",
            help="How many payments to recompute with --reports, drawn at random; left out: all, or as many "
            "as take less than a minute.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Check a certificate without trusting who made it; exit code 1 if any check fails.

    What can be checked depends on what is given. The checks share no code with the certifying program.
    """
    from dpmarket.certificates import Verification, check_certificate
    from dpmarket.cli.render import Voice, busy

    cost = None
    if ask_cost:
        cost = typer.prompt(
            "Your cost per unit of epsilon", type=float, hide_input=sys.stdin.isatty(), err=True
        )
    with busy("Checking"):
        result: Verification = check_certificate(
            certificate,
            receipt=receipt,
            cost=cost,
            digest=digest,
            signature=signature,
            public_key=public_key,
            openings=openings,
            reports=reports,
            payments_checked=payments_checked,
        )
    lines = [f"{check.verdict:9} {check.name}: {check.detail}" for check in result.checks]
    title = "No check failed" if result.passed else "A CHECK FAILED: do not trust this certificate"
    Voice(as_json, quiet).list(title, lines, result.to_dict())
    if not result.passed:
        raise typer.Exit(1)


def signing_key(
    key: Annotated[
        Path, typer.Argument(help="Where to write the secret key; an existing file is never overwritten.")
    ],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make an Ed25519 key for signing certificates, and tell its public part."""
    from dpmarket.certificates import new_signing_key
    from dpmarket.cli.render import Voice

    public = new_signing_key(key)
    note = f"The secret key is in {key}; publish the public key where sellers can find it."
    Voice(as_json, quiet).tell("A new key", [("public key", public)], {"public_key": public}, note)
