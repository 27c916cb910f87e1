"""What a stranger with the source tried against verifier and page, and must not get away with again."""

import hashlib
import json
import math
import re
import shutil
import subprocess
import time

import numpy as np
import pytest

from dpmarket.certificates import receipt_page, verify
from dpmarket.certificates.verifier.signatures import signature_check
from support.certificates import failing
from support.forging import FILES, Papers, canonical

NODE = shutil.which("node")
RULES = (FILES / "version-2" / "online.rules.json").read_bytes()


def published(papers):
    """Return rules that fix this certificate's prices, and the certificate naming them."""
    rules = json.loads(RULES)
    rules["mechanisms"] = {papers.body["mechanism"]: papers.body["market"]}
    text = canonical(rules) + b"\n"
    digest = hashlib.sha256(text).hexdigest()
    told = {"committed_at": rules["committed_at"], "quoted_at": "2026-02-01T00:00:00+00:00", "digest": digest}
    return papers.changed("commitment", to=told), text


def verdicts(verification):
    return {check.name: check.verdict for check in verification.checks}


def largest(papers):
    return max(range(len(papers.lines)), key=lambda k: papers.lines[k]["promise"])


# --- menus ---


def paid_a_third(papers):
    forged = papers.copy()
    menu = forged.body["menu"]
    for name in ("cost", "payment"):
        menu[name] = [value / 3.0 for value in menu[name]]

    def rob(lines):
        for line in lines:
            line["payment"] = float(math.ceil(line["payment"] / 3.0))

    return forged.with_lines(rob)


def test_a_menu_of_more_points_than_anybody_reads_is_refused_soon():
    papers = Papers.read("version-2", "online")
    cost = np.linspace(5.0, 1.0, 60_000)
    epsilon = np.arange(60_000.0)
    payment = np.concatenate([[0.0], np.cumsum(0.5 * (cost[1:] + cost[:-1]))])
    menu = {"cost": cost.tolist(), "epsilon": epsilon.tolist(), "payment": payment.tolist()}
    forged = papers.changed("menu", to=menu)
    started = time.process_time()
    assert "menu" in failing(verify(forged.certificate))
    assert time.process_time() - started < 2.0


# --- signatures ---

P = 2**255 - 19
SMALL = [0, 1, P - 1, P, P + 1, int.from_bytes(bytes.fromhex(
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")]  # fmt: skip


@pytest.mark.parametrize("y", SMALL)
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_with_which_one_signature_fits_all_certificates_is_none(y, sign):
    """The key 1 makes the signature (1, 0) fit every text: whoever has such a key stands behind nothing."""
    key = (y | sign << 255).to_bytes(32, "little")
    signature = (1).to_bytes(32, "little") + bytes(32)
    assert {signature_check(b"%d" % k, signature, key).verdict for k in range(64)} == {"FAILS"}


# --- the page ---


def by_the_page(certificate, receipt, more=""):
    script = re.search(r"<script>(.*)</script>", receipt_page().decode(), re.DOTALL)[1]
    functions, page = script.split("// The page:")
    number = re.search(r"function numberOf.*?\n}\n", page, re.DOTALL)[0]
    given = json.dumps([certificate.hex(), receipt.hex()])
    program = (
        f"{functions}\n{number}\n"
        f"const [certificate, receipt] = {given}.map((text) => Buffer.from(text, 'hex'));\n"
        + (more or "const told = checkReceipt(certificate, receipt);")
        + "\nprocess.stdout.write(JSON.stringify(told));"
    )
    done = subprocess.run([NODE, "-"], input=program.encode(), capture_output=True, check=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
@pytest.mark.parametrize("sign", ["\u202e", "\u2067", "\u200f", "\u2028", "\u3000", "\U000e0041", "\x7f"])
def test_an_id_cannot_turn_round_the_amounts_that_the_page_shows_after_it(sign):
    papers = Papers.read("version-2", "online")
    k = largest(papers)
    forged = papers.with_lines(lambda lines: lines[k].update(id=f"ann{sign}"))
    found = {check["name"]: check["detail"] for check in by_the_page(forged.first, forged.receipt(k))}
    assert sign not in found["receipt's line"]
    assert "\\u{" + f"{ord(sign):x}" + "}" in found["receipt's line"]


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_page_takes_no_thousand_for_one():
    typed = ["2,5", "1.25", "0,125", "1,234", "12,000", "7"]
    told = by_the_page(b"", b"", f"const told = {json.dumps(typed)}.map(numberOf);")
    assert told == [2.5, 1.25, 0.125, None, None, 7.0]


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_names_are_ordered_by_code_points_also_beyond_the_first_plane():
    names = [
        "",
        "a",
        "aa",
        "b",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
        "a\U00010000",
        "a\uffff",
    ]
    text = json.dumps(names[::-1])
    assert by_the_page(b"", b"", f"const told = {text}.sort(byCodePoints);") == sorted(names)


# --- brackets ---


def test_openings_with_many_brackets_in_ids_are_read():
    papers = Papers.read("version-2", "offline")

    def rename(lines):
        for k, line in enumerate(lines):
            line["id"] = f'{k}: "[{{"\\' * 1_000

    named = papers.with_lines(rename)
    assert named.openings.count(b"[") + named.openings.count(b"{") > 2 * 10_000
    assert failing(verify(named.certificate, openings=named.openings)) == set()


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' + b"[" * 300_000,
        b'{"a":"","b":[' + b'"",[],' * 100_000,
        b'{"a":"\\\\",' + b"[" * 300_000,
        b'{"\\"' * 200_000,
        b'"' + b'\\"' * 400_000 + b"[" * 100_000,
        b'{"a":"' + b"[" * 700_000,
    ],
)
def test_openings_of_many_lists_are_refused_at_once_however_texts_stand_between(text):
    papers = Papers.read("version-2", "offline")
    start = time.process_time()
    found = verify(papers.certificate, openings=text + b"\n")
    assert time.process_time() - start < 1.0
    assert "layout" in failing(found)


# --- menus ---


def test_a_posted_price_other_than_the_published_one_is_found_in_the_menu():
    """The menu of one price was not compared with the price: sellers were paid a third of it."""
    papers, rules = published(Papers.read("version-2", "posted"))
    assert verify(papers.certificate, commitment=rules).passed
    forged = paid_a_third(papers)
    found = verify(forged.certificate, receipt=forged.receipt(largest(forged)), commitment=rules)
    assert failing(found) == {"prices fixed beforehand"}


def test_a_menu_too_coarse_to_say_what_an_offer_pays_is_found():
    """Two points of the published curve leave room between them for two thirds of what it pays."""
    papers = Papers.read("version-2", "online")
    for kept in (2, 4, 12):
        forged = papers.copy()
        menu = forged.body["menu"]
        places = np.linspace(0, len(menu["cost"]) - 1, kept).astype(int).tolist()
        for name in menu:
            menu[name] = [menu[name][k] for k in places]

        def rob(lines, menu=menu):
            for line in lines:
                chord = np.interp(line["promise"], menu["epsilon"], menu["payment"])
                line["payment"] = float(math.ceil(chord * 100.0 * (1.0 - 1e-12)))

        forged = forged.with_lines(rob)
        found = failing(verify(forged.certificate, openings=forged.openings, commitment=RULES))
        assert found == (
            {"menu", "offers", "prices fixed beforehand"} if kept < 12 else {"prices fixed beforehand"}
        )
