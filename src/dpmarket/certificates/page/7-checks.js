// The checks of menus, of a receipt and of everything. Every comparison that decides is made with fractions.

// --- menus ---

const WITH_MENU = ["online", "posted price"];
const TOLERANCE = new Fraction(1n, 10n ** 9n);
const BEYOND = new Fraction(1n, 10n ** 8n);
const COARSE = new Fraction(1n, 20n);
const MOST_POINTS = 1000;

// Returns a sound menu as fractions, or null.
function menuOf(body) {
  if (body.menu === null) return null;
  const columns = [body.menu.cost, body.menu.epsilon, body.menu.payment];
  const lengths = new Set(columns.map((column) => column.length));
  const numbers = columns.every((column) => column.every(({ kind, value }) => kind === "float" && isAmount(value)));
  if (lengths.size !== 1 || columns[0].length < 2 || columns[0].length > MOST_POINTS || !numbers) return null;
  const [costs, epsilons, payments] = columns.map((column) => column.map(({ value }) => Fraction.of(value)));
  const menu = { costs, epsilons, payments };
  const starts = epsilons[0].numerator === 0n && payments[0].numerator === 0n;
  return starts && costs.every((_, k) => k === 0 || isPriced(menu, k)) && isFine(menu) ? menu : null;
}

// Whether between any two points no more than a twentieth of the payment is left open: payments lie above
// the chord, and below the chords next to it, drawn on.
function isFine({ costs, epsilons, payments }) {
  const prices = costs.map((cost, k) => (
    k === 0 ? cost : payments[k].minus(payments[k - 1]).over(epsilons[k].minus(epsilons[k - 1]))
  ));
  prices.push(costs[costs.length - 1]);
  return costs.every((_, k) => {
    if (k === 0) return true;
    const room = least(prices[k - 1].minus(prices[k]), prices[k].minus(prices[k + 1]));
    return room.times(epsilons[k].minus(epsilons[k - 1])).isAtMost(COARSE.times(payments[k]));
  });
}

function isPriced({ costs, epsilons, payments }, k) {
  const slack = TOLERANCE.times(payments[k]);
  const more = epsilons[k].minus(epsilons[k - 1]);
  const price = payments[k].minus(payments[k - 1]);
  return more.numerator > 0n && costs[k].isAtMost(costs[k - 1])
    && costs[k].times(more).minus(slack).isAtMost(price) && price.isAtMost(costs[k - 1].times(more).plus(slack));
}

function menuChecks(body, menu) {
  if (hasQuadraticCosts(body)) {
    const detail = "with quadratic costs, payments are no function of epsilon that is checked here";
    return [{ name: "menu", verdict: NOT_MADE, detail }];
  }
  const expected = WITH_MENU.includes(body.mechanism);
  if (!expected && body.menu === null) return [];
  const points = body.menu === null ? 0 : body.menu.cost.length;
  const no = "missing, too coarse, not paying what bits cost, or there although offers depended on others";
  const yes = `${points} points, each bit of epsilon paid what it costs`;
  return [judged("menu", expected && menu !== null, yes, no)];
}

function hasOffer(menu, line, minorUnits) {
  const unit = minorUnits === null ? ZERO : new Fraction(1n, minorUnits);
  const paid = Fraction.of(line.payment).times(minorUnits === null ? ONE : unit);
  if (line.promise === 0) return paid.numerator === 0n;
  const quotes = new Fraction(line.quotes);
  const last = menu.epsilons[menu.epsilons.length - 1];
  let e = Fraction.of(line.promise);
  if (!e.isAtMost(quotes.times(last).times(ONE.plus(BEYOND)))) return false;
  e = least(e, quotes.times(last));
  const most = new Fraction(e.over(last).floor());
  const rest = e.minus(most.times(last));
  const lowest = most.times(menu.payments[menu.payments.length - 1]).plus(chord(menu, rest));
  const highest = quotes.times(tangent(menu, e.over(quotes)));
  return lowest.times(ONE.minus(TOLERANCE)).isAtMost(paid)
    && paid.isAtMost(highest.times(ONE.plus(TOLERANCE)).plus(quotes.times(unit)));
}

function segment({ epsilons }, e) {
  let k = epsilons.findIndex((epsilon) => epsilon.against(e) > 0);
  if (k < 0) k = epsilons.length;
  return Math.min(Math.max(k, 1), epsilons.length - 1);
}

function chord(menu, e) {
  const k = segment(menu, e);
  const [left, right] = [menu.epsilons[k - 1], menu.epsilons[k]];
  const rise = menu.payments[k].minus(menu.payments[k - 1]);
  return menu.payments[k - 1].plus(rise.times(e.minus(left)).over(right.minus(left)));
}

function tangent(menu, e) {
  const k = segment(menu, e);
  const before = menu.payments[k - 1].plus(menu.costs[k - 1].times(e.minus(menu.epsilons[k - 1])));
  const after = menu.payments[k].minus(menu.costs[k].times(menu.epsilons[k].minus(e)));
  return least(before, after);
}

// --- commitments ---

const ARITY = 8;

function hashOf(digits) {
  if (typeof digits !== "string" || !/^[0-9a-f]{64}$/.test(digits) || digits.length !== 64) {
    throw new Broken("expected 64 hexadecimal digits for every salt and every hash");
  }
  return Uint8Array.from({ length: 32 }, (_, k) => parseInt(digits.slice(2 * k, 2 * k + 2), 16));
}

function leafOf(line, salt) {
  const numbers = [line.promise, line.payment, line.spent, line.weight];
  if (!numbers.every(isAmount)) throw new Broken("a line's numbers must be at least 0, and not beyond all bounds");
  if (!(line.quotes >= 1n && line.quotes <= MOST_QUOTES)) {
    throw new Broken("a line adds up at least one quote, and not beyond all bounds");
  }
  const packed = new DataView(new ArrayBuffer(37));
  numbers.forEach((number, k) => packed.setFloat64(8 * k, number));
  packed.setUint8(32, (line.withdrew ? "w" : "k").charCodeAt(0));
  packed.setUint32(33, Number(line.quotes));
  const name = inUtf8(typeof line.id === "string" ? `t${line.id}` : `n${line.id}`);
  return sha256(joined(inUtf8("dpmarket-line-2"), hashOf(salt), new Uint8Array(packed.buffer), name));
}

function climbs(body, leaf, position, path) {
  const count = body.totals.sellers;
  if (!(position >= 0n && position < count)) return false;
  let [node, width, place] = [leaf, Number(count), Number(position)];
  for (const siblings of path) {
    if (siblings.kind !== "list") return false;
    const first = place - (place % ARITY);
    const group = siblings.value.map((digits) => hashOf(digits.kind === "str" ? digits.value : null));
    if (width <= 1 || group.length + 1 !== Math.min(ARITY, width - first)) return false;
    group.splice(place - first, 0, node);
    node = sha256(joined(inUtf8("dpmarket-node-1"), ...group));
    [place, width] = [Math.floor(place / ARITY), Math.ceil(width / ARITY)];
  }
  const eight = new DataView(new ArrayBuffer(8));
  eight.setBigUint64(0, count);
  const root = sha256(joined(inUtf8("dpmarket-root-1"), new Uint8Array(eight.buffer), node));
  return width === 1 && hexadecimal(root) === body.root;
}

// --- a receipt ---

function receiptChecks(body, digest, bytes, cost, menu) {
  const receipt = receiptOf(parsed(onlyLine(bytes), "the receipt", MOST_RECEIPT));
  const { line } = receipt;
  const inside = climbs(body, leafOf(line, receipt.salt), receipt.position, receipt.path);
  const name = typeof line.id === "string" ? seen(line.id) : String(line.id);
  const mine = `is in the certificate: id ${name}, promise ${floatText(line.promise)}, payment `
    + amountText(line.payment, body) + (line.quotes > 1n ? `, ${line.quotes} quotes together` : "")
    + (line.withdrew ? ", withdrawn: nothing of it is owed" : "");
  const { currency, minor_units: minorUnits } = receipt.money;
  const same = currency === body.currency && minorUnits === body.minorUnits
    && written({ kind: "list", value: receipt.not_promised }) === written({ kind: "list", value: body.notPromised });
  const checks = [
    judged("receipt's digest", receipt.certificate === digest, "this certificate", "another certificate"),
    judged("receipt's line", inside, mine, "is not in the certificate"),
    judged("receipt's numbers", fits(line, body), "fit into the totals", "are more than the totals"),
    judged("receipt's spent epsilon", isCovered(line, body), "covers the weight used", "is less than the weight costs"),
    judged("receipt's promise", isKept(line), `was kept${withDelta(body.release.delta)}`, "was exceeded"),
    judged("receipt's words", same, "about money and limits are the certificate's", "are others"),
  ];
  if (body.minorUnits !== null) {
    const good = Number.isInteger(line.payment);
    checks.push(judged("receipt's payment", good, "in whole units of money", "is no whole number of units"));
  }
  if (body.menu !== null) {
    const offered = menu !== null && hasOffer(menu, line, body.minorUnits);
    checks.push(judged("receipt's offer", offered, "is on the public menu", "is not what the menu offers"));
  }
  return [...checks, participation(line, body, cost)];
}

// A text in quotation marks, in which nothing is unseen, or turns round what comes after it.
function seen(text) {
  return quoted(text).replace(/(?! )[\p{C}\p{Z}]/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

function onlyLine(bytes) {
  if (bytes[bytes.length - 1] !== 10) throw new Broken("expected a file that ends with its only line");
  return bytes.subarray(0, bytes.length - 1);
}

function isCovered(line, body) {
  const release = line.weight > 0 ? releaseUp(body.release) : ZERO;
  if (line.weight > 0 && release !== null && isGaussian(body.release)) {
    return gaussianCovers(line.weight, Fraction.of(line.spent).minus(release), release, body.release);
  }
  return release !== null && lossUp(line.weight, body.release).plus(release).isAtMost(Fraction.of(line.spent));
}

function fits(line, { totals, menu, release }) {
  if (line.quotes > 1n && menu === null) return false;
  if (line.withdrew) return totals.withdrawn >= 1n;
  return line.promise <= totals.promise && line.payment <= totals.payment && line.spent <= totals.spent
    && line.weight <= release.weight_total;
}

function isKept(line) {
  return line.withdrew ? line.spent === 0 && line.weight === 0 : line.spent <= line.promise;
}

function participation(line, body, cost) {
  const name = "participation";
  if (line.withdrew) {
    const detail = "this line says that you withdrew: nothing was used, nothing is owed";
    return { name, verdict: NOT_MADE, detail };
  }
  if (cost === null) return { name, verdict: NOT_MADE, detail: "enter your own cost to check it" };
  if (!(cost >= 0 && cost < Infinity)) {
    return judged(name, false, "", "the cost given is none: expected a number of at least 0");
  }
  const paid = Fraction.of(line.payment).over(new Fraction(body.minorUnits ?? 1n));
  const epsilon = Fraction.of(line.promise);
  const loss = hasQuadraticCosts(body) ? epsilon.times(epsilon) : epsilon;
  const worth = Fraction.of(cost).times(loss).isAtMost(paid);
  return judged(name, worth, "the payment covers the loss", "the payment is too small");
}

// --- everything ---

const NOT_PROMISED = [
  "That anybody's cost is secret: promises and payments follow from reported costs, and a cost that goes "
    + "with somebody's record tells about the record, beyond epsilon.",
  "That a promise is secret from who knows all others: totals and the noise rate are public, and what is "
    + "missing from them is the last one's.",
  "That prices were fixed before the reports, unless the rules were published before them and are "
    + "compared.",
  "That the records were true, or collected lawfully.",
  "Anything about what can be learnt by watching the computation: time, memory, power, error messages.",
  "Anything beyond this one release: further ones from the same records add to what was spent.",
  "That the stated program ran: the computation itself is not proved, only its accounting.",
];

function limitsChecks(body) {
  const told = body.notPromised.map(({ kind, value }) => (kind === "str" ? value : null));
  const missing = NOT_PROMISED.filter((sentence) => !told.includes(sentence)).length;
  const texts = !told.includes(null);
  const no = texts ? `${missing} statements of them are missing` : "some are no sentences";
  const more = told.length - NOT_PROMISED.length;
  const yes = `what is not promised is stated${more > 0 ? `, and ${more} sentences more: read them` : ""}`;
  return [judged("limits", !missing && texts, yes, no)];
}

// What is said of a release that only later programs know: neither that it holds nor that it fails.
function elsewhere(kind, found, digest) {
  const detail = `not checked by this page, which knows no releases of the kind ${seen(kind)}: use dpmarket verify`;
  const checks = [{ name: "layout", verdict: NOT_MADE, detail }];
  if (digest !== null) checks.push(judged("digest", found === digest, "the one given", "not the one given"));
  return checks;
}

// Checks a receipt against a certificate's first line, both as bytes; cost and digest may be null.
function checkReceipt(certificate, receipt, cost = null, digest = null) {
  const checks = [];
  try {
    const end = certificate.subarray(0, MOST_BODY).indexOf(10) + 1;
    const first = certificate.subarray(0, end);
    const start = inUtf8('{"body":');
    const framed = start.every((byte, k) => first[k] === byte) && first[end - 2] === 0x2c && end <= MOST_BODY;
    if (!framed || end < start.length + 2) {
      throw new Broken("this is not a certificate: expected its first line to hold the body");
    }
    const bytes = first.subarray(start.length, end - 2);
    const plain = parsed(bytes, "the certificate's first line", MOST_BODY);
    const found = hexadecimal(sha256(bytes));
    const strange = strangeKind(plain);
    if (strange !== null) return elsewhere(strange, found, digest);
    const body = bodyOf(plain);
    checks.push({ name: "layout", verdict: HOLDS, detail: `canonical, version 2; the digest is ${found}` });
    if (digest !== null) checks.push(judged("digest", found === digest, "the one given", "not the one given"));
    checks.push({ name: "signature", verdict: NOT_MADE, detail: "needs the signature and the signer's public key" });
    const only = "only the first line was read; the receipt's path leads to the root";
    checks.push({ name: "commitments", verdict: NOT_MADE, detail: only });
    const sound = publicChecks(body);
    const menu = menuOf(body);
    checks.push(...sound, ...menuChecks(body, menu), ...limitsChecks(body));
    const word = body.commitment === null
      ? "no rules were published before the reports: that prices were fixed is the buyer's word"
      : "needs the rules as they were published";
    checks.push({ name: "rules fixed beforehand", verdict: NOT_MADE, detail: word });
    if (sound[0].verdict === HOLDS) {
      checks.push(...deltaChecks(body));
      checks.push(...receiptChecks(body, found, receipt, cost, menu));
    }
  } catch (problem) {
    const detail = problem instanceof Broken ? problem.message : `a part is missing or wrong (${problem.name})`;
    checks.push({ name: "layout", verdict: FAILS, detail });
  }
  return checks;
}
