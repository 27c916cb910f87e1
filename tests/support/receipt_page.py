"""The receipt page's own script, run in node on many receipts at once."""

import base64
import functools
import json
import re
import shutil
import subprocess

from dpmarket.certificates import receipt_page

NODE = shutil.which("node")


@functools.cache
def script():
    """Return the page's functions, without what reads its fields."""
    return re.search(r"<script>(.*)</script>", receipt_page().decode(), re.DOTALL)[1].split("// The page:")[0]


def page_verdicts(cases):
    """Return for each (certificate, receipt, cost) the pairs of name and verdict, in the page's order."""
    given = [[base64.b64encode(one).decode() for one in case[:2]] + [case[2]] for case in cases]
    program = f"""{script()}
    const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
    const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const found = given.map(([certificate, receipt, cost]) => (
      checkReceipt(bytes(certificate), bytes(receipt), cost, null)
        .map(({{ name, verdict }}) => [name, verdict])));
    process.stdout.write(JSON.stringify(found));"""
    done = subprocess.run(
        [NODE, "-e", program],
        input=json.dumps(given).encode(),
        capture_output=True,
        check=True,
        timeout=3_000,
    )
    return [[tuple(pair) for pair in one] for one in json.loads(done.stdout)]
