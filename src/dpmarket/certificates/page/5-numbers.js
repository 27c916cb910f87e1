// What a weight costs in a release of statistics, and whether its numbers are what was asked for. A weight of one
// spends a power of two; records are whole parts of a public range; a line's weight is what it spends.

const PARTS = new Fraction(1n << 24n);
const MOST_STATISTICS = 1000;
const LARGEST_WEIGHT = 1n << 80n;
const EXPONENTS = [-760n, 40n];
const NEAR = 1e-9;
const ASKED = {
  columns: "list", name: "str", noise_scale: "float", numerators: "list", question: "dict", share: "float",
  total_weight: "str", unit_exponent: "int", values: "list",
};
const TERMS = ["confidence", "kind", "rows_per_person"];
const SETTINGS = {
  mean: ["low", "high"], share: [], histogram: ["categories"], quantile: ["level", "candidates", "interval_share"],
  "vector mean": ["names", "bound"],
};

function powerOfTwo(exponent) {
  return exponent >= 0n ? new Fraction(1n << exponent) : new Fraction(1n, 1n << -exponent);
}

// The parts of a release whose outer layout was checked before.
function statisticRelease(found) {
  const parts = found.value.get("statistics").value;
  if (!(parts.length >= 1 && parts.length <= MOST_STATISTICS)) {
    throw new Broken("a release has at least one statistic, and not beyond all bounds");
  }
  for (const part of parts) {
    const names = Object.keys(ASKED);
    if (part.kind !== "dict" || part.value.size !== names.length || !names.every((name) => part.value.has(name))) {
      throw new Broken("a statistic in the certificate does not have the parts that this program knows");
    }
    // In the order in which the verifier looks at them.
    for (const name of names) {
      if (part.value.get(name).kind !== ASKED[name]) {
        throw new Broken(`'${name}' of a statistic is not of the type that it must have`);
      }
    }
  }
  return { ...opened(found), statistics: parts.map(opened) };
}

const unitOf = (asked) => powerOfTwo(asked.unit_exponent);
const unitOfAll = ({ statistics }) => statistics.map(unitOf).reduce(least);
const spentBy = (asked) => new Fraction(BigInt(asked.total_weight)).times(unitOf(asked));

// A weight costs itself, or the next whole multiple of the unit where it is none.
function statisticLossUp(a, release) {
  const unit = unitOfAll(release);
  const count = a.over(unit);
  return new Fraction(-new Fraction(-count.numerator, count.denominator).floor()).times(unit);
}

// The names of what is out of range or does not fit together.
function wrongNumbers(release, totalPromise) {
  const { statistics } = release;
  const wrong = statistics.flatMap((asked) => wrongIn(asked, release).map((part) => `${seen(asked.name)}: ${part}`));
  if (wrong.length) return wrong;
  if (new Set(statistics.map(({ name }) => name)).size < statistics.length) wrong.push("names");
  if (release.delta !== 0) wrong.push("delta");
  if (!(release.rows_per_person >= 1n && release.rows_per_person <= 1000000n)) wrong.push("rows_per_person");
  const added = (numbers) => numbers.reduce((sum, number) => sum.plus(number), ZERO);
  if (!added(statistics.map(({ share }) => Fraction.of(share))).isAtMost(ONE)) wrong.push("shares");
  const promised = Fraction.of(totalPromise);
  const within = (asked) => spentBy(asked).isAtMost(Fraction.of(asked.share).times(promised));
  if (!statistics.every(within)) wrong.push("a statistic that spends more than its share");
  const spent = added(statistics.map(spentBy));
  const told = Fraction.of(release.weight_total);
  const more = spent.times(ONE.plus(new Fraction(1n, 1n << 50n)));
  if (!spent.isAtMost(told) || !told.isAtMost(more)) wrong.push("weight_total");
  return wrong;
}

function wrongIn(asked, release) {
  const unusable = unusableIn(asked, release.rows_per_person);
  if (unusable !== null) return [unusable];
  const wrong = [];
  if (!asked.columns.every(({ kind }) => kind === "str")) wrong.push("columns");
  if (!(asked.share > 0 && asked.share <= 1)) wrong.push("share");
  const scale = whole(changedBy(asked.question)).times(PARTS).over(unitOf(asked));
  if (Fraction.of(asked.noise_scale).against(scale) !== 0) wrong.push("noise_scale");
  const own = valuesOf(asked);
  if (own === null) wrong.push("numerators");
  else {
    const most = NEAR * sizeOf(asked.question);
    if (!own.every((value, k) => Math.abs(value - asked.values[k].value) <= most)) wrong.push("values");
  }
  return wrong;
}

// The first part from which nothing can be computed, null if all can be used.
function unusableIn(asked, rows) {
  const { question } = asked;
  const kind = question.get("kind");
  if (kind === undefined || kind.kind !== "str" || !Object.hasOwn(SETTINGS, kind.value)) return "kind";
  const needed = [...SETTINGS[kind.value], ...TERMS];
  const more = [...question.keys()].filter((name) => !needed.includes(name));
  const known = more.every((name) => kind.value === "histogram" && name === "edges");
  if (!known || !needed.every((name) => question.has(name)) || !isSensible(question, rows)) return "question";
  if (!(asked.unit_exponent >= EXPONENTS[0] && asked.unit_exponent <= EXPONENTS[1])) return "unit_exponent";
  const total = { kind: "str", value: asked.total_weight };
  if (!isWholeText(total) || !(BigInt(total.value) >= 1n && BigInt(total.value) <= LARGEST_WEIGHT)) {
    return "total_weight";
  }
  if (!asked.numerators.every(isWholeText)) return "numerators";
  return asked.values.every(({ kind: told }) => told === "float") ? null : "values";
}

// By how many times a weight one person's replaced records move what is released.
function changedBy(question) {
  const kind = question.get("kind").value;
  const two = kind === "histogram" && question.get("categories").value.length === 2;
  return kind === "mean" || kind === "share" || two ? 1 : 2;
}

// Whether the settings of a question make sense: bounds in order, categories apart.
function isSensible(question, rows) {
  const kind = question.get("kind").value;
  const confidence = question.get("confidence");
  if (confidence.kind !== "float" || !(confidence.value > 0 && confidence.value < 1)) return false;
  const own = question.get("rows_per_person");
  if (own.kind !== "int" || own.value !== rows) return false;
  if (kind === "mean") return isIncreasing([question.get("low"), question.get("high")]);
  if (kind === "histogram") {
    const names = question.get("categories");
    if (names.kind !== "list" || names.value.length < 2) return false;
    if (new Set(names.value.map(plainText)).size !== names.value.length) return false;
    const edges = question.get("edges");
    if (edges === undefined || edges.kind === "null") return true;
    return edges.kind === "list" && isIncreasing(edges.value) && edges.value.length === names.value.length + 1;
  }
  if (kind === "quantile") {
    const candidates = question.get("candidates");
    if (candidates.kind !== "list" || !isIncreasing(candidates.value)) return false;
    const share = ordered(question.get("interval_share"));
    if (!(share >= 0 && share < 1)) return false;
    const level = ordered(question.get("level"));
    return level > 0 && level < 1;
  }
  if (kind === "vector mean") {
    const [names, bound] = [question.get("names"), question.get("bound")];
    const texts = names.kind === "list" && names.value.length > 0 && names.value.every((name) => name.kind === "str");
    return texts && new Set(names.value.map(({ value }) => value)).size === names.value.length
      && bound.kind === "float" && bound.value > 0;
  }
  return true;
}

const plainText = (part) => (part.kind in LEVEL_TEXT ? LEVEL_TEXT[part.kind](part.value) : written(part));

// A number that can be compared with others; what cannot ends the check, as in the verifier.
function ordered({ kind, value }) {
  if (kind === "float" || kind === "int") return Number(value);
  if (kind === "bool") return value ? 1 : 0;
  throw new TypeError();
}

function isIncreasing(numbers) {
  return numbers.every(({ kind, value }, k) => kind === "float" && (k === 0 || numbers[k - 1].value < value));
}

// A whole number as a text, in its one way to be written.
const isWholeText = ({ kind, value }) => kind === "str" && value.length <= 100 && /^(0|-?[1-9][0-9]*)$/.test(value);

function labelsOf(question) {
  for (const name of ["categories", "names"]) {
    if (question.has(name) && question.get(name).value.length) return question.get(name).value;
  }
  return [question.get("kind")];
}

// How large a value of this question can be.
function sizeOf(question) {
  if (question.get("kind").value === "mean") {
    return Math.max(Math.abs(question.get("low").value), Math.abs(question.get("high").value));
  }
  return question.has("bound") ? question.get("bound").value : 1;
}

// The values that follow from the whole numbers, in their public range; null if they are wrong.
function valuesOf(asked) {
  const { question } = asked;
  const kind = question.get("kind").value;
  const released = asked.numerators.map(({ value }) => BigInt(value));
  if (kind === "quantile") {
    const candidates = question.get("candidates").value;
    const ends = ordered(question.get("interval_share")) > 0 ? 3 : 1;
    const inside = released.length === ends
      && released.every((place) => place >= 0n && place < BigInt(candidates.length));
    return inside && asked.values.length === 1 ? [candidates[Number(released[0])].value] : null;
  }
  const labels = labelsOf(question);
  const single = kind === "mean" || kind === "share";
  const pair = kind === "histogram" && labels.length === 2;
  if (released.length !== (single || pair ? 1 : labels.length) || asked.values.length !== labels.length) return null;
  const all = new Fraction(BigInt(asked.total_weight)).times(PARTS);
  const shares = released.map((number) => new Fraction(number).over(all));
  if (single) {
    const [low, high] = kind === "share" ? [ZERO, ONE] : ["low", "high"].map((end) => Fraction.of(question.get(end).value));
    const value = low.plus(high.minus(low).times(shares[0]));
    return [(value.isAtMost(low) ? low : least(value, high)).toNumber()];
  }
  if (kind === "vector mean") {
    const bound = question.get("bound").value;
    const mean = shares.map((share) => bound * share.toNumber());
    const length = Math.hypot(...mean);
    return mean.map((part) => (length > 0 ? Math.min(1, bound / length) : 1) * part);
  }
  return nearestShares(pair ? [ONE.minus(shares[0]), shares[0]] : shares);
}

// The shares nearest to these that are at least 0 and 1 in sum: all less the same number.
function nearestShares(shares) {
  const falling = [...shares].sort((a, b) => b.against(a));
  let [total, off] = [ZERO, ZERO];
  falling.forEach((share, k) => {
    total = total.plus(share);
    const less = total.minus(ONE).over(whole(k + 1));
    if (share.against(less) > 0) off = less;
  });
  return shares.map((share) => (share.isAtMost(off) ? 0 : share.minus(off).toNumber()));
}
