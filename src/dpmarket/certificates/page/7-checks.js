// All checks, in the order of the program's verifier and with its names. Every comparison that decides is exact.

// --- the public part ---

const isCurrency = (name) => /^[\p{L}\p{Sc}]{0,12}$/u.test(name);
const digestOf = (text) => hexadecimal(sha256(inUtf8(text)));

class Public {
  constructor(body) {
    [this.body, this.totals, this.market] = [body, body.totals, new Market(body)];
    this.release = new FAMILIES[body.release.family](body.release);
    this.rules = body.rules === null ? null : digestOf(body.rules.text);
  }

  checks() {
    const { body, release, totals, market } = this;
    const wrong = [...release.problems(), ...this.problems()];
    const unsound = marketProblems(body.market, market, release.delta);
    const checks = [
      judged("public numbers", !wrong.length, wrong.join(", ")),
      judged("market tables", !unsound.length, unsound.join(", ") || body.market.mechanism),
    ];
    if (!wrong.length && !unsound.length) {
      const { cost, charged } = release;
      checks.push(judged("release", cost !== null && cost.isAtMost(charged), cost === null ? "" : cost.toNumber().toPrecision(4)));
      checks.push(judged("total used", totals.total_used <= totals.total_epsilon), ...this.delta(), ...this.trusted());
    }
    const missing = LIMITS.filter((sentence) => !body.limits.includes(sentence)).length;
    const more = body.limits.length - LIMITS.length + missing;
    checks.push(this.announced(), ...this.salt(), skipped("published rules"));
    return [...checks, judged("limits", !missing, String(missing || more))];
  }

  problems() {
    const { bought_from: bought, withdrawn, sellers, total_epsilon: epsilon } = this.totals;
    return namesOf({
      currency: isCurrency(this.body.money.currency),
      withdrawn: bought + withdrawn <= sellers,
      bought_from: (bought === 0) === (epsilon === 0),
    });
  }

  delta() {
    const { release: { delta }, totals } = this;
    if (delta === 0) return [];
    if (delta > 1 / (10 * Math.max(totals.bought_from, 1))) return [judged("delta", false, String(delta))];
    return [delta > 1 / (10 * totals.sellers) ? skipped("delta") : judged("delta", true, String(delta))];
  }

  trusted() {
    const { terms, model, loss } = this.body.release;
    const lengths = () => (model.encoder === null ? skipped("row lengths") : judged("row lengths", true));
    return [
      ...(terms?.norm?.separate.includes(true) ? [lengths()] : []),
      ...(terms?.private === "labels" ? [skipped("public features")] : []),
      ...(loss?.kind === "torch" ? [skipped("model code")] : []),
    ];
  }

  announced() {
    const [name, text] = ["announced rules", this.rules === null ? "" : this.body.rules.text];
    if (!text.startsWith("{")) return skipped(name);
    let rules = {};
    try {
      [rules] = loaded(inUtf8(text), "rules", MOST_BODY);
    } catch (problem) {
      if (!(problem instanceof Broken)) throw problem;
    }
    if (!isCanonical(rules, text)) return judged(name, false, "are not written in the one canonical way");
    const tables = Object.hasOwn(rules, "announced") ? rules.announced : null;
    if (!isObject(tables) || !Object.keys(tables).length) return skipped(name);
    const other = this.differing(tables, this.body, "");
    return judged(name, other === null, other === null ? this.rules : `say otherwise about ${other}`);
  }

  // The first announced part that is not stated alike; null if all are.
  differing(announced, stated, where) {
    if (isObject(announced) && Object.keys(announced).join() === "by_sellers") {
      const options = announced.by_sellers;
      const isOption = (one) => Array.isArray(one) && one.length === 2 && typeof one[0] === "number";
      if (!Array.isArray(options) || !options.every(isOption)) return where;
      const reached = options.filter(([fewest]) => fewest <= this.totals.sellers);
      return reached.length ? this.differing(lastOf(reached)[1], stated, where) : where;
    }
    if (!isObject(announced) || !isObject(stated)) return written(announced) === written(stated) ? null : where;
    for (const [name, value] of Object.entries(announced)) {
      const place = where ? `${where}.${name}` : name;
      const found = Object.hasOwn(stated, name) ? this.differing(value, stated[name], place) : place;
      if (found !== null) return found;
    }
    return null;
  }

  salt() {
    const { split } = this.body.market;
    if (split === null) return [];
    if (split.sellers === null && split.nonce === null) return [skipped("salt")];
    if (this.rules === null || split.sellers === null) {
      return [judged("salt", false, "is bound to rules and sellers that the certificate does not state")];
    }
    const bound = sha256(joined(inUtf8("dpmarket-salt-1"), bytesOfHash(this.rules), bytesOfHash(split.sellers)));
    return [judged("salt", hexadecimal(bound) === split.salt, "was chosen otherwise")];
  }
}

// --- a receipt ---

function leafOf(line, salt) {
  const packed = new DataView(new ArrayBuffer(37));
  [line.epsilon, line.payment, line.used, line.weight].forEach((number, k) => packed.setFloat64(8 * k, number));
  packed.setUint8(32, line.withdrew ? 1 : 0);
  [line.part, line.group].forEach((place, k) => packed.setUint16(33 + 2 * k, place));
  const rules = line.rules === null ? new Uint8Array(32) : bytesOfHash(line.rules);
  return sha256(joined(Uint8Array.of(0), bytesOfHash(salt), new Uint8Array(packed.buffer), rules, inUtf8(line.id)));
}

// Whether an inclusion proof of RFC 9162 leads from a leaf at this index to the certificate's root.
function climbs(body, leaf, index, path) {
  let [place, last, node] = [index, body.totals.sellers - 1, leaf];
  if (place > last) return false;
  const siblings = path.map(bytesOfHash);
  while (last > 0) {
    if (place % 2 === 1 || place < last) { // else the node has no sibling
      if (!siblings.length) return false;
      const other = siblings.shift();
      node = sha256(joined(Uint8Array.of(1), ...(place % 2 ? [other, node] : [node, other])));
    }
    [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
  }
  return !siblings.length && hexadecimal(node) === body.root;
}

// A line as its seller reads it.
function shown(line, { market: { groups }, money: { minor_units: units, currency } }) {
  const { payment } = line;
  const digits = String(units).length - 1;
  let amount = `${payment}/${units}`;
  if (units === 10 ** digits) {
    const part = String(payment % units).padStart(digits, "0");
    amount = String(Math.floor(payment / units)) + (digits ? `.${part}` : "");
  }
  let text = `id ${seen(line.id)}, epsilon ${line.epsilon}, payment ${`${amount} ${currency}`.trim()}`;
  if (groups.length > 1 && line.group < groups.length) text += `, group ${seen(groups[line.group].name)}`;
  return text + (line.withdrew ? ", withdrawn: nothing of it is owed" : "");
}

function fitsTotals(line, { totals, release }) {
  if (line.withdrew) return totals.withdrawn >= 1;
  return (line.epsilon === 0 || totals.bought_from >= 1) && line.epsilon <= totals.total_epsilon
    && line.payment <= totals.total_payment && line.used <= totals.total_used && line.weight <= release.weight_total;
}

// What must hold of every line; null: does not apply.
const LINE_CHECKS = {
  "epsilon used": ({ release }, line) => isCovered(release, line),
  "privacy budget": (_, line) => (line.withdrew ? line.used === 0 && line.weight === 0 : line.used <= line.epsilon),
  "agreed rules": ({ rules }, line) => (rules === null && line.rules === null ? null : line.rules === rules),
  part: ({ market }, line) => market.isPlaced(line),
  payment: ({ market }, line) => market.hasPrices(line) && market.isPaid(line),
};

function receiptChecks(found, digest, bytes, cost) {
  const receipt = parsed(onlyLine(bytes), "receipt", MOST_RECEIPT);
  const { line } = receipt;
  const { delta } = found.release;
  const inside = climbs(found.body, leafOf(line, receipt.salt), receipt.index, receipt.path);
  const ofLine = Object.entries(LINE_CHECKS).map(([name, check]) => {
    const good = check(found, line);
    let more = delta && name === "privacy budget" ? `; the epsilon comes with a delta of ${delta}` : "";
    if (name === "epsilon used" && "intervals" in found.release.found) more = ", and the share of the noisy Hessian";
    return good === null ? skipped(name, "receipt's ") : judged(name, good, more, "receipt's ");
  });
  return [
    judged("receipt's digest", receipt.certificate === digest),
    judged("receipt's line", inside, shown(line, found.body)),
    judged("receipt's totals", fitsTotals(line, found.body)),
    ...ofLine,
    ...(line.withdrew ? [skipped("withdrawal", "receipt's ")] : []),
    quoteCheck(found.market, line, cost),
  ];
}

function quoteCheck(market, line, cost) {
  const name = "quote at your cost";
  if (cost === null) return skipped(name);
  if (!(cost >= 0 && cost < Infinity)) {
    return judged(name, false, "the cost given is none: expected a number of at least 0");
  }
  if (!market.hasPrices(line)) return judged(name, false, "the line names prices that do not exist");
  const problem = market.quoteProblem(line, cost);
  return judged(name, !problem, problem);
}

// --- everything ---

// Checks a receipt against a certificate's first line, both as bytes; cost and digest may be null.
function checkReceipt(certificate, receipt, cost = null, digest = null) {
  const checks = [];
  try {
    const end = certificate.subarray(0, MOST_BODY).indexOf(10) + 1;
    const first = certificate.subarray(0, end);
    const start = inUtf8('{"body":');
    const framed = start.every((byte, k) => first[k] === byte) && first[end - 2] === 0x2c && end <= MOST_BODY;
    if (!framed || end < start.length + 2) {
      throw new Broken("this is not a certificate: expected its first line to have the body");
    }
    const bytes = first.subarray(start.length, end - 2);
    const body = parsed(bytes, "certificate", MOST_BODY);
    const found = hexadecimal(sha256(bytes));
    checks.push(judged("layout", true, found));
    if (digest !== null) checks.push(judged("digest", found === digest));
    checks.push(skipped("signature"), skipped("commitments"));
    const public_ = new Public(body);
    const sound = public_.checks();
    checks.push(...sound);
    if (sound.slice(0, 2).every(({ verdict }) => verdict === HOLDS)) {
      checks.push(...receiptChecks(public_, found, receipt, cost));
    }
    checks.push(skipped("totals"));
  } catch (problem) {
    const detail = problem instanceof Broken ? problem.message : `a part is missing or wrong (${problem.name})`;
    checks.push(judged("layout", false, detail));
  }
  return checks;
}
