"""Checking files: everything that is given is looked at, by the command and by the verifier alone."""

import numpy as np
import pytest

from dpmarket.certificates import check_certificate, new_signing_key, read_signature, sign, verify
from dpmarket.certificates.verifier.__main__ import main
from dpmarket.errors import FileProblem, InvalidInput
from support.certificates import IDS, certified, costs_of, failing, verdicts


@pytest.fixture(scope="module")
def certificate():
    return certified()


@pytest.fixture(scope="module")
def bought(certificate):
    return int(np.argmax(certificate.lines.values[:, 0]))


@pytest.fixture
def folder(certificate, bought, tmp_path):
    """Return a folder with the certificate, a receipt and openings, and with those of another certificate."""
    for name, made in (("", certificate), ("other ", certified())):
        (tmp_path / f"{name}certificate.json").write_bytes(bytes(made))
        (tmp_path / f"{name}receipt.json").write_bytes(made.receipt(IDS[bought].item()))
        (tmp_path / f"{name}openings.json").write_bytes(made.openings())
    return tmp_path


def test_files_that_belong_together_pass_and_others_do_not(folder, certificate):
    proof = folder / "certificate.json"
    assert check_certificate(proof, digest=certificate.digest).passed
    assert failing(check_certificate(proof, digest="0" * 64)) == {"digest"}
    for kind in ("receipt", "openings"):
        assert check_certificate(proof, **{kind: folder / f"{kind}.json"}).passed
        found = failing(check_certificate(proof, **{kind: folder / f"other {kind}.json"}))
        assert f"{kind}'{'s' if kind == 'receipt' else ''} digest" in found


def test_the_holders_cost_is_compared_with_the_payment(folder, bought):
    proof, receipt = folder / "certificate.json", folder / "receipt.json"
    cost = float(costs_of()[bought])
    assert verdicts(check_certificate(proof, receipt=receipt, cost=cost))["participation"] == "holds"
    assert failing(check_certificate(proof, receipt=receipt, cost=100.0)) == {"participation"}


def test_a_signature_is_checked_with_the_key_that_the_reader_knows(folder, certificate):
    """A signature file names a key, but anybody can make a key."""
    known, another = (new_signing_key(folder / name) for name in ("known.pem", "another.pem"))
    signed = folder / "certificate.json.sig"
    signed.write_bytes(sign(certificate, folder / "another.pem"))
    proof = folder / "certificate.json"
    assert verdicts(verify(certificate))["signature"] == "not made"
    assert check_certificate(proof, signature=signed, public_key=another).passed
    assert failing(check_certificate(proof, signature=signed, public_key=known)) == {"signature"}
    for key in ("", "00", known[:-2], known + "00", "z" * 64):
        with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
            check_certificate(proof, signature=signed, public_key=key)


def test_a_signature_file_of_another_kind_and_a_key_of_another_kind_are_refused(folder, certificate):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    new_signing_key(folder / "key.pem")
    good = sign(certificate, folder / "key.pem")
    read_signature(good)
    with pytest.raises(InvalidInput, match="signature file"):
        read_signature(good.replace(b"dpmarket.signature/1", b"dpmarket.signature/2"))
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "other.pem").write_bytes(other)
    with pytest.raises(FileProblem, match="Ed25519"):
        sign(certificate, folder / "other.pem")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 0, "holds     commitments"),
        (("--digest", "0" * 64), 1, "FAILS     digest"),
        (("--receipt", "receipt.json"), 0, "not made  participation"),
        (("--receipt", "receipt.json", "--cost", "100"), 1, "FAILS     participation"),
        (("--receipt", "other receipt.json"), 1, "FAILS     receipt's digest"),
        (("--openings", "openings.json"), 0, "holds     openings"),
        (("--openings", "other openings.json"), 1, "FAILS     openings"),
    ],
)
def test_the_verifier_alone_looks_at_all_that_it_is_given(folder, monkeypatch, capsys, options, code, words):
    monkeypatch.chdir(folder)
    assert main(["certificate.json", *options]) == code
    assert words in capsys.readouterr().out


def test_the_verifier_alone_says_in_one_line_which_file_is_missing(folder, capsys):
    assert main([str(folder / "missing.json")]) == 1
    assert capsys.readouterr().err == f"cannot read {folder / 'missing.json'}: No such file or directory\n"
