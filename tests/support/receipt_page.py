"""The receipt page's own script, run in node on many receipts at once."""

import base64
import json
import re
import shutil
import subprocess

from dpmarket.certificates import receipt_page, verify

NODE = shutil.which("node")


def page_verdicts(cases, page=None):
    """Return for each (certificate, receipt, cost) the pairs of name and verdict, in the page's order."""
    text = receipt_page().decode() if page is None else page
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1].split("// The page:")[0]
    given = [[base64.b64encode(one).decode() for one in case[:2]] + [case[2]] for case in cases]
    program = f"""{script}
    const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
    const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const found = given.map(([certificate, receipt, cost]) => (
      checkReceipt(bytes(certificate), bytes(receipt), cost, null)
        .map(({{ name, verdict }}) => [name, verdict])));
    process.stdout.write(JSON.stringify(found));"""
    done = subprocess.run(
        [NODE, "-e", program], input=json.dumps(given).encode(), capture_output=True, check=True, timeout=900
    )
    return [[tuple(pair) for pair in one] for one in json.loads(done.stdout)]


def checks_by_both(cases):
    """Return the verifier's checks of each (first line, receipt, cost); the page's, where node is, agree."""
    found = [verify(first, receipt=receipt, cost=cost).checks for first, receipt, cost in cases]
    if NODE:
        own = [[(check.name, check.verdict) for check in checks] for checks in found]
        for case, checks, page in zip(cases, own, page_verdicts(cases), strict=True):
            assert page == checks, case[1]
    return found


def page_checks(page, certificate, receipt, cost=None):
    """Check one receipt by the script of a page; return the verdict of each check by its name."""
    return dict(page_verdicts([(certificate, receipt, cost)], page)[0])
