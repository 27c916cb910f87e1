// The checks of a certificate's public numbers: each within what makes sense, and all of them together.

const [HOLDS, FAILS, NOT_MADE] = ["holds", "FAILS", "not made"];
const judged = (name, good, yes, no) => ({ name, verdict: good ? HOLDS : FAILS, detail: good ? yes : no });

const RANGES = {
  l2: [1e-15, 1e9], noise_rate: [1e-9, 1e12], row_bound: [1, 1e6], rows_per_person: [1n, 1000000n],
  weight_total: [1e-9, 1e3], gradient_bound: [1e-100, 1], noise_accuracy: [1e-100, 1],
  numerical_epsilon: [1e-100, 10], intercept_scaling: [0, 1e6], stretch: [1e-9, 1e9],
  grid: [2 ** -300, 2 ** 100], n_coefficients: [1n, 1000000n],
};
const LARGEST_CELL = 2n ** 63n;
const LARGEST_UNITS = 2n ** 53n;
const LARGEST_MARKET = 10n ** 10n;
const MOST_QUOTES = 1000000n;
const MOST_CLASSES = 10000;
const LARGEST_NUMBER = 1e15;
const isAmount = (number) => number >= 0 && number <= LARGEST_NUMBER;

function publicChecks(body) {
  const { release, totals, minorUnits } = body;
  const wrong = release.kind === STATISTIC ? wrongNumbers(release, totals.promise) : wrongConstants(release, totals);
  if (minorUnits !== null && !(minorUnits >= 1n && minorUnits <= LARGEST_UNITS)) wrong.push("minor_units");
  if (!isCurrency(body.currency)) wrong.push("currency");
  const counted = totals.sellers >= 1n && totals.sellers <= LARGEST_MARKET && totals.boughtFrom >= 0n
    && totals.withdrawn >= 0n && totals.boughtFrom + totals.withdrawn <= totals.sellers;
  if (!counted) wrong.push("totals");
  if (release.delta > 0 && !isPricedDelta(body)) wrong.push("delta");
  const no = `of a wrong kind, out of range, or not fitting together: ${wrong.join(", ")}`;
  const yes = `within their ranges, and consistent${withDelta(release.delta)}`;
  const checks = [judged("public numbers", !wrong.length, yes, no)];
  if (wrong.length) return checks;
  const cost = releaseUp(release);
  const covered = cost !== null && cost.isAtMost(Fraction.of(release.numerical_epsilon ?? 0));
  const told = cost === null ? "" : shown(cost.toNumber());
  const kept = [totals.promise, totals.payment, totals.spent].every(isAmount) && totals.spent <= totals.promise;
  return [
    ...checks,
    judged("release", covered, `costs ${told}, as charged`, "costs more than charged"),
    judged("total spent", kept, "at most the total promised", "more than promised, or not a number"),
    ...rowLengths(release),
  ];
}

// What must stand wherever epsilons do: the delta that each of them comes with.
function withDelta(delta) {
  return delta > 0 ? `; each epsilon comes with a delta of ${floatText(delta)}` : "";
}

// Whether a delta is at most the one at which the market has people price an epsilon, if it states one.
function isPricedDelta({ market, release }) {
  if (!market.has("delta")) return true;
  const { kind, value } = market.get("delta");
  return release.delta <= (kind === "float" ? value : 0);
}

// Whether a reported cost multiplies the square of epsilon, by the market's table of epsilon costs.
function hasQuadraticCosts({ market }) {
  const table = market.get("epsilon_cost");
  return table !== undefined && table.kind === "dict" && table.value.has("shape")
    && table.value.get("shape").value === "quadratic";
}

// What can be said of a delta by whoever cannot count the lines that were bought from: the root covers the number
// of sellers, but that so few of them were bought from is the buyer's word.
function deltaChecks({ release, totals }) {
  if (release.delta === 0) return [];
  if (release.delta <= tenthOf(totals.sellers)) {
    const detail = "at most a tenth of a person, however many of the sellers sold";
    return [{ name: "delta", verdict: HOLDS, detail }];
  }
  const detail = `a tenth of a person at most if ${totals.boughtFrom} sold, as stated: only the openings count them`;
  return [{ name: "delta", verdict: NOT_MADE, detail }];
}

// The largest delta among so many people, as a float, so that who asks for just that is not refused by rounding.
const tenthOf = (people) => 1 / Number(10n * (people > 1n ? people : 1n));

function wrongConstants(release, totals) {
  // Encoded rows are shorter in the Euclidean norm.
  const ranges = release.kind === GAUSSIAN_ENCODED ? { ...RANGES, row_bound: [1e-3, 1e6] } : RANGES;
  const outside = Object.entries(ranges)
    .filter(([name, [low, high]]) => !(release[name] >= low && release[name] <= high))
    .map(([name]) => name);
  return [...outside, ...inconsistent(release, totals)];
}

// A bound which nothing declared implies was not checked.
function rowLengths({ kind, encoder }) {
  if (kind !== SHAPED || (encoder ?? null) !== null) return [];
  const told = "that no row is longer than the Euclidean bound is the buyer's word: no encoder is stated";
  return [{ name: "row lengths", verdict: NOT_MADE, detail: told }];
}

function inconsistent(release, totals) {
  const constant = release.fit_intercept ? Fraction.of(release.intercept_scaling) : ZERO;
  const wrong = misshapen(release, constant);
  if (!isWholeGrid(release)) wrong.push("coef_grid");
  if (!isPowerOfTwo(release.grid)) wrong.push("grid");
  if (!areDifferent(release.classes, hasManyClasses(release))) wrong.push("classes");
  // Noise of other kinds needs none.
  const kept = isGaussian(release)
    ? release.delta > 0 && release.delta <= tenthOf(totals.boughtFrom) : release.delta === 0;
  if (!kept) wrong.push("delta");
  const count = Number(release.n_coefficients) - (release.fit_intercept ? 1 : 0);
  if (!areBounded(release.features, count)) wrong.push("features");
  return wrong;
}

// Whether there is a whole number for every coefficient, of every class if there are many.
function isWholeGrid({ kind, coef_grid: cells, classes, n_coefficients: count }) {
  const many = hasManyClasses({ kind });
  if (many && cells.length !== classes.length) return false;
  const rows = many ? cells : [{ kind: "list", value: cells }];
  return rows.every((row) => row.kind === "list" && BigInt(row.value.length) === count && row.value.every(
    (cell) => cell.kind === "int" && cell.value <= LARGEST_CELL && -cell.value <= LARGEST_CELL,
  ));
}

// Letters and currency signs: nothing that could be read as an amount.
const isCurrency = (name) => /^[\p{L}\p{Sc}]{0,12}$/u.test(name);

// A payment, in money or in whole minor units, as people read it.
function amountText(payment, { minorUnits, currency }) {
  let text = floatText(payment) + (minorUnits === null ? "" : `/${minorUnits}`);
  if (minorUnits !== null && Number.isInteger(payment)) {
    const units = BigInt(payment);
    const digits = String(minorUnits).length - 1;
    text = `${units}/${minorUnits}`;
    if (minorUnits === 10n ** BigInt(digits)) {
      const part = String(units % minorUnits).padStart(digits, "0");
      text = String(units / minorUnits) + (digits ? `.${part}` : "");
    }
  }
  return `${text} ${currency}`.trim();
}

function isPowerOfTwo(number) {
  const { numerator, denominator } = Fraction.of(number);
  return number > 0 && (numerator & (numerator - 1n)) === 0n && (denominator & (denominator - 1n)) === 0n;
}

function areDifferent(classes, many) {
  const plain = classes.every(({ kind }) => ["str", "int", "float", "bool"].includes(kind));
  const counted = many ? classes.length > 2 && classes.length <= MOST_CLASSES : classes.length === 2;
  return plain && counted && new Set(classes.map(sameForEqual)).size === classes.length;
}

// One text for all labels that are equal: whole numbers, floats and truth values are if their values are.
function sameForEqual({ kind, value }) {
  if (kind === "str") return `text ${value}`;
  const { numerator, denominator } = Fraction.of(kind === "bool" ? BigInt(value) : value);
  return `${numerator}/${denominator}`;
}

function areBounded({ name, low, high }, count) {
  return name.length === count && low.length === count && high.length === count
    && name.every(({ kind }) => kind === "str") && new Set(name.map(({ value }) => value)).size === count
    && low.every((part, k) => part.kind === "float" && high[k].kind === "float" && part.value < high[k].value);
}

// Four digits that count, as other programs show them.
function shown(number) {
  const [mantissa, power] = number.toExponential(3).split("e");
  const exponent = Number(power);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent >= -4 && exponent < 4) return short(number.toFixed(3 - exponent));
  return `${short(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

// --- the shape of the noise ---

// R2: the bound on the Euclidean length of rows with their constant; R1 where the noise has no other shape.
const longest = (release) => release.euclidean_bound ?? release.row_bound;
// How many coefficients have radial noise together: all, where the noise has no other shape.
const jointOf = (release) => release.joint_columns ?? BigInt(release.coef_grid.length);

function misshapen(release, constant) {
  const [first, second] = [Fraction.of(release.row_bound), Fraction.of(longest(release))];
  const [joint, count] = [jointOf(release), BigInt(release.coef_grid.length)];
  let fits = ONE.plus(constant).isAtMost(first) && constant.isAtMost(second) && second.isAtMost(first) && joint >= 0n;
  if (joint === count) {
    fits = ONE.plus(constant.times(constant)).isAtMost(first.times(first)) && second.against(first) === 0;
  } else if (isGaussian(release)) {
    fits = constant.isAtMost(first) && joint >= 0n; // its one bound is Euclidean, and follows from the encoder
  }
  const wrong = fits && joint <= count ? [] : ["row_bound"];
  const encoder = release.encoder ?? null;
  if (encoder !== null && !isDeclared(release, encoder)) wrong.push("encoder");
  return wrong;
}

const ROOM = 1e-8;

// Whether an encoder makes the columns of a release, and rows as short as it says. It divides all rows by the
// largest length that its declarations allow.
function isDeclared(release, encoder) {
  const columns = declaredColumns(encoder.get("columns"));
  const radius = encoder.get("radius");
  if (columns === null || radius === undefined || radius.kind !== "float" || !(radius.value > 0)) return false;
  const told = release.features.name;
  const sorted = (names) => JSON.stringify([...names].sort());
  if (!told.every(({ kind }) => kind === "str")) return false;
  if (sorted(columns.names) !== sorted(told.map(({ value }) => value))) return false;
  const { numbers, groups } = columns;
  const joint = jointOf(release);
  if (joint === BigInt(release.coef_grid.length)) return true;
  if (joint !== 0n && joint !== BigInt(numbers)) return false;
  const length = Math.min(radius.value, Math.sqrt(numbers));
  const largest = joint === 0n ? Math.sqrt(numbers) * length + groups : length + groups;
  const constant = release.fit_intercept ? release.intercept_scaling : 0;
  const shortest = (length ** 2 + groups) / largest ** 2 + constant ** 2;
  return longest(release) ** 2 >= shortest * (1 - ROOM);
}

// The names of the encoded columns, how many are numbers, and how many groups of levels; null if there are others.
function declaredColumns(columns) {
  if (columns === undefined || columns.kind !== "dict") return null;
  const found = { names: [], numbers: 0, groups: 0 };
  for (const [name, part] of columns.value) {
    if (part.kind !== "dict") return null;
    const levels = [];
    const has = (key) => part.value.has(key);
    const says = (key) => has(key) && part.value.get(key).value === true;
    if ((has("low") && has("high")) || (has("first") && has("last"))) {
      found.names.push(name);
      found.numbers += 1;
    } else if (has("categories")) {
      const given = part.value.get("categories");
      if (given.kind !== "list" || !given.value.every(({ kind }) => kind in LEVEL_TEXT)) return null;
      levels.push(...given.value.map(({ kind, value }) => LEVEL_TEXT[kind](value)));
      if (says("other")) levels.push("other");
    } else if (has("boolean")) levels.push("yes");
    else return null;
    if (says("missing_category")) levels.push("missing");
    found.names.push(...levels.map((level) => `${name}=${level}`));
    found.groups += levels.length ? 1 : 0;
  }
  return found;
}

const LEVEL_TEXT = {
  str: (value) => value, int: String, float: floatText, bool: (value) => (value ? "True" : "False"),
};
