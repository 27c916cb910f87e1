// All checks, in the order of the program's verifier and with its names. Every comparison that decides is exact.

// --- the public part ---

const isCurrency = (name) => /^[\p{L}\p{Sc}]{0,12}$/u.test(name) && [...name].length <= 12 && !name.endsWith("\n");

function publicChecks(body, release) {
  const { totals, money } = body;
  const counts = [totals.bought_from, totals.withdrawn];
  const sums = [totals.total_epsilon, totals.total_payment, totals.total_used];
  const own = namesOf({
    money: isWhole(money.minor_units, 1, 2 ** 53) && isCurrency(money.currency),
    sellers: isWhole(totals.sellers, 1, 1e10),
    totals: counts.every((count) => isWhole(count, 0, 1e10)) && counts[0] + counts[1] <= totals.sellers
      && sums.every((sum) => within(sum, 0, LARGEST)),
    bought_from: (totals.bought_from === 0) === (totals.total_epsilon === 0),
    root: isHash(body.root),
  });
  const wrong = [...release.problems(), ...own];
  const unsound = own.includes("money") ? ["money"] : marketProblems(body, release.delta);
  const checks = [
    judged("public numbers", !wrong.length, "within their ranges, and consistent",
      `out of range, or not fitting together: ${wrong.join(", ")}`),
    judged("market tables", !unsound.length, `sound; the mechanism is ${body.market.mechanism}`,
      `missing or not sound: ${unsound.join(", ")}`),
  ];
  if (wrong.length || unsound.length) return checks;
  const [cost, charged] = release.cost();
  const shown = cost === null ? "" : cost.toNumber().toPrecision(4);
  return [
    ...checks,
    judged("release", cost !== null && cost.isAtMost(charged), `rounding costs ${shown}, as charged`,
      "rounding costs more than charged"),
    judged("total used", totals.total_used <= totals.total_epsilon, "at most the total epsilon", "more than the total epsilon"),
    ...deltaChecks(release.delta, totals),
    ...rowLengthChecks(body.release),
  ];
}

function deltaChecks(delta, totals) {
  if (delta === 0) return [];
  if (delta > 1 / (10 * Math.max(totals.bought_from, 1))) {
    return [judged("delta", false, "", `${delta} is too large for ${totals.bought_from} people`)];
  }
  const few = `${delta}, a tenth of a person if ${totals.bought_from} sold, as stated: only the openings count them`;
  return [delta <= 1 / (10 * totals.sellers)
    ? judged("delta", true, `${delta}, at most a tenth of a person, however many of the sellers sold`, "")
    : skipped("delta", few)];
}

// --- rules ---

const digestOfRules = ({ rules }) => (rules === null ? null : hexadecimal(sha256(inUtf8(rules.text))));

function rulesChecks(body) {
  const [digest, { split }] = [digestOfRules(body), body.market];
  const checks = [announcedCheck(body, digest)];
  if (split !== null && split.reports === null) {
    checks.push(skipped("salt", "nothing binds the salt to the reports: that it was drawn once is the buyer's word"));
  } else if (split !== null && (digest === null || !isHash(split.reports))) {
    checks.push(judged("salt", false, "", "is bound to rules that the certificate does not state"));
  } else if (split !== null) {
    const own = hexadecimal(sha256(joined(inUtf8("dpmarket-salt-1"), hashOf(digest), hashOf(split.reports))));
    checks.push(judged("salt", own === split.salt, "follows from the rules and the frozen reports", "was chosen otherwise"));
  }
  return [...checks, skipped("published rules", "needs the rules as they were published before the reports")];
}

function announcedCheck(body, digest) {
  const name = "announced rules";
  if (digest === null) return skipped(name, "no rules were announced: that prices were fixed is the buyer's word");
  let announced;
  try {
    announced = loaded(inUtf8(body.rules.text), "the rules", MOST_BODY)[0].announced;
  } catch (problem) {
    announced = null;
  }
  if (!isObject(announced) || !Object.keys(announced).length) {
    return skipped(name, `the rules with the digest ${digest} announce no tables to compare`);
  }
  const other = differing(announced, body, "");
  return judged(name, other === null, `are kept; their digest is ${digest}`, `say otherwise about ${other}`);
}

// The first announced part that is not stated alike; null if all are.
function differing(announced, stated, where) {
  if (!isObject(announced) || !isObject(stated)) {
    return JSON.stringify(announced) === JSON.stringify(stated) ? null : where.slice(0, -1);
  }
  for (const [name, value] of Object.entries(announced)) {
    if (!Object.hasOwn(stated, name)) return where + name;
    const found = differing(value, stated[name], `${where}${name}.`);
    if (found !== null) return found;
  }
  return null;
}

const LIMITS = @LIMITS@;

function limitsCheck({ limits }) {
  const missing = LIMITS.filter((sentence) => !limits.includes(sentence)).length;
  const more = limits.length - LIMITS.length;
  const yes = `what is not guaranteed is stated${more > 0 ? `, and ${more} sentences more: read them` : ""}`;
  return judged("limits", !missing, yes, `${missing} statements of them are missing`);
}

// --- a receipt ---

function leafOf(line, salt) {
  const numbers = [line.epsilon, line.payment, line.used, line.weight];
  if (!numbers.every((number) => within(number, 0, LARGEST))) {
    throw new Broken("a line's numbers must be at least 0, and not beyond all bounds");
  }
  const places = [line.part, line.group];
  if (!places.every((place) => isWhole(place, 0, 65535))) throw new Broken("a line's part and group must be whole numbers");
  const packed = new DataView(new ArrayBuffer(37));
  numbers.forEach((number, k) => packed.setFloat64(8 * k, number));
  packed.setUint8(32, line.withdrew ? 1 : 0);
  places.forEach((place, k) => packed.setUint16(33 + 2 * k, place));
  const rules = line.rules === null ? new Uint8Array(32) : hashOf(line.rules);
  return sha256(joined(Uint8Array.of(0), hashOf(salt), new Uint8Array(packed.buffer), rules, inUtf8(line.id)));
}

// Whether an inclusion proof of RFC 9162 leads from a leaf at this index to the certificate's root.
function climbs(body, leaf, index, path) {
  if (!isWhole(index, 0, body.totals.sellers - 1)) return false;
  const siblings = path.map(hashOf);
  let [place, last, node] = [index, body.totals.sellers - 1, leaf];
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

function amountText(payment, { minor_units: units, currency }) {
  const digits = String(units).length - 1;
  let text = `${payment}/${units}`;
  if (units === 10 ** digits) {
    const part = String(payment % units).padStart(digits, "0");
    text = String(Math.floor(payment / units)) + (digits ? `.${part}` : "");
  }
  return `${text} ${currency}`.trim();
}

function fitsTotals(line, { totals, release }) {
  if (line.withdrew) return totals.withdrawn >= 1;
  return (line.epsilon === 0 || totals.bought_from >= 1) && line.epsilon <= totals.total_epsilon
    && line.payment <= totals.total_payment && line.used <= totals.total_used && line.weight <= release.weight_total;
}

function receiptChecks(body, market, release, digest, bytes, cost) {
  const receipt = parsed(onlyLine(bytes), "the receipt", MOST_RECEIPT);
  refuseOther(receipt, "receipt");
  const [{ line }, { split }, rules] = [receipt, body.market, digestOfRules(body)];
  const inside = climbs(body, leafOf(line, receipt.salt), receipt.index, receipt.path);
  const mine = `is in the certificate: id ${seen(line.id)}, epsilon ${line.epsilon}, payment `
    + amountText(line.payment, body.money)
    + (body.market.groups.length > 1 ? `, group ${seen(body.market.groups[line.group]?.name ?? "unknown")}` : "")
    + (line.withdrew ? ", withdrawn: nothing of it is owed" : "");
  const kept = line.withdrew ? line.used === 0 && line.weight === 0 : line.used <= line.epsilon;
  const delta = release.delta > 0 ? `; the epsilon comes with a delta of ${release.delta}` : "";
  const placed = market.isPlaced(line)
    && (split === null || partOf(line.id, split.salt, split.parts) === line.part);
  return [
    judged("receipt's digest", receipt.certificate === digest, "this certificate", "another certificate"),
    judged("receipt's line", inside, mine, "is not in the certificate"),
    judged("receipt's totals", fitsTotals(line, body), "fit", "are less than the line's numbers"),
    judged("receipt's epsilon used", release.covers(line.weight, line.used), "covers the weight", "is less than the weight costs"),
    judged("receipt's privacy budget", kept, `was not exceeded${delta}`, "was exceeded"),
    rules === null && line.rules === null
      ? skipped("receipt's agreed rules", "no rules were announced to sellers")
      : judged("receipt's agreed rules", line.rules === rules, "are the certificate's", "are others than the certificate's"),
    judged("receipt's part", placed, "follows from the id and the salt", "does not follow from the id and the salt"),
    judged("receipt's payment", market.isPlaced(line) && market.isPaid(line), "is what the announced tables give",
      "is not what the announced tables give"),
    quoteCheck(market, line, cost),
  ];
}

function quoteCheck(market, line, cost) {
  const name = "quote at your cost";
  if (cost === null) return skipped(name, "enter the cost that you reported to check it");
  if (!(cost >= 0 && cost < Infinity)) {
    return judged(name, false, "", "the cost given is none: expected a number of at least 0");
  }
  if (!market.isPlaced(line)) return judged(name, false, "", "the line names prices that do not exist");
  if (!market.isWorthIt(line, cost)) return judged(name, false, "", "the payment does not cover your cost");
  const [yes, no] = market.prices.length
    ? ["the announced prices give this quote", "the announced prices give another quote"]
    : ["the payment covers your cost", "the cost is above the reserve price, and something was bought"];
  return judged(name, market.isQuote(line, cost), yes, no);
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
    const body = parsed(bytes, "the certificate's first line", MOST_BODY);
    refuseOther(body, "certificate");
    const found = hexadecimal(sha256(bytes));
    checks.push(judged("layout", true, `canonical, version 3; the digest is ${found}`, ""));
    if (digest !== null) checks.push(judged("digest", found === digest, "the one given", "not the one given"));
    checks.push(skipped("signature", "needs the signature and the signer's public key: dpmarket verify checks it"));
    checks.push(skipped("commitments", "only the first line was read; the receipt's path leads to the root"));
    const release = new FAMILIES[body.release.family](body.release);
    const sound = publicChecks(body, release);
    checks.push(...sound, ...rulesChecks(body), limitsCheck(body));
    if (sound.slice(0, 2).every(({ verdict }) => verdict === HOLDS)) {
      checks.push(...receiptChecks(body, new Market(body), release, found, receipt, cost));
    }
  } catch (problem) {
    const detail = problem instanceof Broken ? problem.message : `a part is missing or wrong (${problem.name})`;
    checks.push(judged("layout", false, "", detail));
  }
  return checks;
}
