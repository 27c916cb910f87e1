// The page: takes two files and two optional texts, shows every check. Nothing is stored, nothing is sent.

const field = (name) => document.getElementById(name);

async function bytesOf(input, most) {
  const file = input.files[0];
  return file === undefined ? null : new Uint8Array(await file.slice(0, most + 1).arrayBuffer());
}

// Returns the number that a person typed, null for an empty field, and NaN for what is none.
function numberOf(text) {
  const typed = text.trim();
  if (typed === "") return null;
  if (/^[1-9][0-9]*,[0-9]{3}$/.test(typed)) return NaN; // a thousand here, a little above one there
  return /^[0-9]+([.,][0-9]*)?$/.test(typed) ? Number(typed.replace(",", ".")) : NaN;
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function show(checks) {
  const failed = checks.filter(({ verdict }) => verdict === FAILS).length;
  const summary = field("verdict");
  summary.className = failed ? "bad" : "good";
  summary.textContent = "No check failed.";
  if (failed) {
    summary.textContent = `${failed} of ${checks.length} checks failed: do not trust this receipt or this certificate.`;
  }
  const rows = checks.map(({ name, verdict, detail }) => {
    const row = element("tr", "");
    const kind = { [HOLDS]: "good", [FAILS]: "bad", [SKIPPED]: "open" }[verdict];
    row.append(element("td", verdict, kind), element("td", name), element("td", detail));
    return row;
  });
  field("checks").replaceChildren(...rows);
  field("result").hidden = false;
}

async function check() {
  const certificate = await bytesOf(field("certificate"), MOST_BODY);
  const receipt = await bytesOf(field("receipt"), MOST_RECEIPT);
  if (certificate === null || receipt === null) {
    field("result").hidden = true;
    field("missing").textContent = "Choose both files first: the certificate and your receipt.";
    return;
  }
  field("missing").textContent = "";
  const digest = field("digest").value.trim().toLowerCase();
  show(checkReceipt(certificate, receipt, numberOf(field("cost").value), digest === "" ? null : digest));
}

field("check").addEventListener("click", check);
