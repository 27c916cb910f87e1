// What a weight costs in privacy, for every family of releases: the same five questions of each.

const RELEASE_RANGES = {
  grid: [2 ** -300, 2 ** 100],
  gradient_bound: [1e-100, 1],
  noise_accuracy: [1e-100, 1],
  noise_rate: [1e-9, 1e12],
  numerical_epsilon: [1e-100, 10],
  weight_total: [1e-9, 1.001],
};
const CELLS = whole(65536);
const LARGEST_TOTAL = 2 ** 36;
const LEAST_CLOSE = ONE.minus(new Fraction(1n, 1n << 48n));
const MOST_CLOSE = ONE.plus(new Fraction(1n, 1n << 40n));
const POSITIONS = 1n << 256n;

const within = (value, low, high) => value >= low && value <= high;
const sumOf = (fractions) => fractions.reduce((sum, one) => sum.plus(one), ZERO);
const power = (exponent) => (exponent >= 0 ? new Fraction(1n << BigInt(exponent)) : new Fraction(1n, 1n << BigInt(-exponent)));
const isPowerOfTwo = (number) => {
  const { numerator } = Fraction.of(number);
  return numerator > 0n && (numerator & (numerator - 1n)) === 0n;
};

// --- constants, derived anew from the loss, the norm and the rows ---

function lossConstants(loss) {
  if (loss.kind === "softmax" && "classes" in loss) {
    if (!isWhole(loss.classes, 2, 10000)) return null;
    const k = whole(loss.classes);
    const others = k.minus(ONE);
    const terms = [[ONE, ZERO, ZERO, k.over(others)]];
    if (others.against(ONE) > 0) terms.push([others.minus(ONE), ZERO, ONE.over(others), ZERO]);
    return {
      outputs: k, rank: others, reach: TWO, span: TWO, terms, curvature_1: ONE, third: TWO.minus(TWO.over(k)),
      relative_third: TWO,
    };
  }
  if (loss.kind !== "sigmoid" || !("scale" in loss)) return null;
  const pairs = [loss.shift, loss.target, loss.labels];
  if (pairs.some((pair) => pair.length !== 2)) return null;
  if (!within(loss.scale, 1e-6, 1e6) || !within(loss.slope, 1e-6, 1e6)) return null;
  const [scale, slope] = [Fraction.of(loss.scale), Fraction.of(loss.slope)];
  const [[shift, moved], [target, by], [low, high]] = pairs.map((pair) => pair.map(Fraction.of));
  const ends = [low, high].map((label) => target.plus(by.times(label)));
  const [first, last] = ends[0].isAtMost(ends[1]) ? ends : [ends[1], ends[0]];
  const bound = whole(2 ** 20);
  const isShort = (label) => shift.plus(moved.times(label)).absolute().isAtMost(whole(2e9));
  if (!(ZERO.minus(bound).isAtMost(low) && low.isAtMost(high) && high.isAtMost(bound))) return null;
  if (!(ZERO.isAtMost(first) && last.isAtMost(ONE) && isShort(low) && isShort(high))) return null;
  const far = last.isAtMost(ONE.minus(first)) ? ONE.minus(first) : last;
  const kappa = scale.times(slope);
  return {
    outputs: ONE,
    rank: ONE,
    reach: scale.times(far),
    span: moved.numerator === 0n ? scale.times(last.minus(first)) : null,
    terms: [[ONE, kappa.times(far).times(ONE.minus(far)), ZERO, kappa.times(far).times(far)]],
    curvature_1: kappa.over(whole(4)),
    third: scale.times(slope).times(slope).over(whole(6).times(rootDown(whole(3)))),
    relative_third: slope,
  };
}

function normConstants(norm) {
  const { separate } = norm;
  const c = Fraction.of(norm.constant ?? 0);
  const n = separate.length + (norm.constant !== null ? 1 : 0);
  const apart = separate.filter(Boolean).length;
  const root = rootUp(whole(n));
  if (!apart) {
    const bound = c.numerator ? rootUp(ONE.plus(c.times(c))) : ONE;
    return { coefficients: whole(n), joint: whole(n), row_bound: bound, row_bound_2: bound,
      largest_sum: root.times(bound), ones: root };
  }
  const joint = separate.length - apart;
  const bound = ONE.plus(c);
  const euclidean = Fraction.of(norm.euclidean_bound);
  const long = least(rootUp(euclidean.times(euclidean).plus(c.times(c))), bound);
  return {
    coefficients: whole(n),
    joint: whole(joint),
    row_bound: bound,
    row_bound_2: long,
    largest_sum: least(root.times(long), rootUp(whole(Math.max(joint, 1))).times(bound)),
    ones: (joint ? rootUp(whole(joint)) : ZERO).plus(whole(n - joint)),
  };
}

function boundsOf(loss, terms, n) {
  if (terms.private === "labels") return [[]];
  const rows = whole(terms.rows_per_person);
  const found = [loss.terms.map(([m, p, q, v]) => [m.times(rows), p.over(rows), q.over(rows), v.over(rows)])];
  if (n.against(rows) < 0) {
    const size = n.times(loss.rank);
    found.push([[size, ...[1, 2, 3].map((k) => sumOf(loss.terms.map((term) => term[0].times(term[k]))).over(size))]]);
  }
  return found;
}

function isClose(stated, derived) {
  if (derived.numerator === 0n) return within(stated, 0, 1e-12);
  const own = Fraction.of(stated);
  return derived.times(LEAST_CLOSE).isAtMost(own) && own.isAtMost(derived.times(MOST_CLOSE));
}

function normProblems(terms) {
  const { norm } = terms;
  const wrong = namesOf({
    schema: terms.schema === "dpmarket.release/1",
    l2: within(terms.l2, 1e-15, 1e9),
    rows_per_person: isWhole(terms.rows_per_person, 1, 1e6),
    private: ["records", "labels"].includes(terms.private),
    constant: norm.constant === null || (within(norm.constant, 2 ** -20, 2 ** 20) && isPowerOfTwo(norm.constant)),
    euclidean_bound: within(norm.euclidean_bound, 1e-6, 1),
    separate: within(norm.separate.length, 1, 1e6),
  });
  const loss = lossConstants(terms.loss);
  if (loss === null || (terms.private === "labels" && loss.span === null)) wrong.push("loss");
  if (wrong.length) return wrong;
  const { outputs, rank, curvature_1, third, relative_third } = loss;
  const reach = terms.private === "records" ? loss.reach : loss.span.over(TWO);
  const derived = { reach, outputs, rank, curvature_1, third, relative_third, ...normConstants(norm) };
  const stated = terms.constants;
  const differing = Object.keys(derived).filter((name) => !isClose(stated[name], derived[name]));
  const own = boundsOf(loss, terms, derived.coefficients);
  const same = own.length === stated.bounds.length && own.every((bound, k) => (
    bound.length === stated.bounds[k].length && bound.every((term, j) => (
      stated.bounds[k][j].length === 4 && term.every((value, i) => isClose(stated.bounds[k][j][i], value))
    ))
  ));
  return same ? differing : [...differing, "bounds"];
}

// --- models ---

function modelProblems(model, loss, norm, shape = null) {
  const { name: names, low, high } = model.features;
  const outputs = "classes" in loss ? loss.classes : 1;
  const wrong = within(model.factor, 1e-9, 1e9) ? [] : ["factor"];
  if (norm === null && shape[0] !== outputs) wrong.push("coefficients");
  const expected = norm === null ? [shape[1], shape[1] - 1] : [norm.separate.length];
  const bounded = low.length === names.length && high.length === names.length && low.every((one, k) => one < high[k]);
  if (!expected.includes(names.length) || !bounded || new Set(names).size < names.length) wrong.push("features");
  const { classes } = model;
  const apart = classes !== null && new Set(classes.map((label) => JSON.stringify(label))).size === classes.length;
  if (classes === null ? outputs !== 1 : classes.length !== Math.max(outputs, 2) || !apart) wrong.push("classes");
  if (model.encoder !== null && !isDeclared(model, norm)) wrong.push("encoder");
  return wrong;
}

function isDeclared({ encoder, features }, norm) {
  const { radius } = encoder;
  if (!isObject(encoder.columns) || typeof radius !== "number" || !(radius > 0)) return false;
  const names = [];
  let [numbers, groups] = [0, 0];
  for (const [name, part] of Object.entries(encoder.columns)) {
    if (!isObject(part)) return false;
    const has = (...keys) => keys.every((key) => Object.hasOwn(part, key));
    let levels = [];
    if (has("low", "high") || has("first", "last")) {
      names.push(name);
      numbers += 1;
    } else if (has("categories")) {
      if (!fits(part.categories, "[text|number]")) return false;
      levels = part.categories.map(String).concat(part.other === true ? ["other"] : []);
    } else if (has("boolean")) levels = ["yes"];
    else return false;
    if (part.missing_category === true) levels.push("missing");
    names.push(...levels.map((level) => `${name}=${level}`));
    groups += levels.length ? 1 : 0;
  }
  if (written(names.sort()) !== written([...features.name].sort())) return false;
  if (norm === null || !norm.separate.includes(true)) return true;
  const joint = norm.separate.filter((apart) => !apart).length;
  const length = Math.min(radius, Math.sqrt(numbers));
  const largest = joint === 0 ? Math.sqrt(numbers) * length + groups : length + groups;
  const shortest = (length ** 2 + groups) / largest ** 2;
  return [0, numbers].includes(joint) && norm.euclidean_bound ** 2 >= shortest * (1 - 1e-8);
}

function rowLengthChecks(release) {
  if (release.family !== "norm" || !release.terms.norm.separate.includes(true)) return [];
  return [release.model.encoder === null
    ? skipped("row lengths", "no encoder is stated: the Euclidean bound on rows is the buyer's word")
    : judged("row lengths", true, "follow from what was declared of the columns", "")];
}

// --- objective perturbation with noise of a norm ---

class NormRelease {
  constructor(found) {
    [this.found, this.terms, this.constants, this.delta] = [found, found.terms, found.terms.constants, 0];
  }

  problems() {
    const ranged = Object.entries(RELEASE_RANGES).map(([name, ends]) => [name, within(this.found[name], ...ends)]);
    const wrong = [...namesOf(Object.fromEntries(ranged)), ...normProblems(this.terms)];
    if (wrong.length || !isPowerOfTwo(this.found.grid)) return [...wrong, "grid"];
    const { outputs, coefficients } = this.constants;
    const isCell = (cell) => isWholeText(cell, 20) && whole(cell).absolute().isAtMost(power(63));
    const rows = this.found.cells;
    const cells = rows.length === outputs && rows.every((row) => row.length === coefficients && row.every(isCell));
    return [...(cells ? [] : ["cells"]), ...modelProblems(this.found.model, this.terms.loss, this.terms.norm)];
  }

  // What releasing on the grid costs, rounded up (null: too fine), and what was charged for it.
  cost() {
    const { found, terms } = this;
    const own = Object.fromEntries(Object.entries(this.constants).filter(([name]) => name !== "bounds")
      .map(([name, value]) => [name, Fraction.of(value)]));
    const [g, l2, total, eta, charged] = [
      found.grid, terms.l2, found.weight_total, found.noise_rate, found.numerical_epsilon,
    ].map(Fraction.of);
    const accuracy = Fraction.of(found.gradient_bound).plus(Fraction.of(found.noise_accuracy));
    const share = TWO.times(accuracy).over(l2.times(g));
    if (share.against(ONE) >= 0) return [null, charged];
    const long = own.row_bound_2;
    const noise = own.outputs.times(l2).times(own.ones)
      .plus(total.times(own.curvature_1).times(own.row_bound).times(own.largest_sum));
    const bent = least(
      own.relative_third.times(own.coefficients).times(own.rank).times(long),
      own.third.times(total).times(long).times(long).times(long).over(l2),
    );
    const slope = eta.over(TWO).times(noise).plus(rootUp(own.coefficients).times(bent));
    const logs = log1pUp(TWO.times(share).over(ONE.minus(share)));
    return [own.outputs.times(own.coefficients).times(logs).plus(share.times(g).times(slope)), charged];
  }

  covers(weight, used) {
    if (weight === 0) return true;
    const [cost] = this.cost();
    return cost !== null && this.charge(Fraction.of(weight)).plus(cost).isAtMost(Fraction.of(used));
  }

  charge(weight) {
    const [eta, l2] = [this.found.noise_rate, this.terms.l2].map(Fraction.of);
    const [reach, bound, long] = ["reach", "row_bound", "row_bound_2"].map((name) => Fraction.of(this.constants[name]));
    const alpha = weight.times(eta).times(reach).times(bound).over(TWO);
    const c = weight.times(long).times(long).over(l2);
    return this.constants.bounds.map((stated) => {
      const terms = stated.map((term) => term.map(Fraction.of));
      let t = Fraction.of(maximiser(alpha.toNumber(), c.toNumber(), stated));
      let slope = slopeAt(alpha, c, t, terms);
      if (t.numerator > 0n && t.against(ONE) < 0) { // one step of Newton's method on fractions, then rounded
        t = t.minus(slope.over(curvatureAt(c, t, terms)));
        t = least(t.numerator < 0n ? ZERO : new Fraction(t.times(new Fraction(POSITIONS)).floor(), POSITIONS), ONE);
        slope = slopeAt(alpha, c, t, terms);
      }
      const logs = sumOf(terms.map((term) => term[0].times(log1pUp(c.times(inner(t, term))))));
      const [right, left] = [slope.times(ONE.minus(t)), ZERO.minus(slope.times(t))];
      return alpha.times(ONE.plus(t)).plus(logs).plus(right.isAtMost(left) ? left : right);
    }).reduce(least);
  }
}

const inner = (t, [, start, end, bend]) => (
  start.times(ONE.minus(t)).plus(end.times(t)).plus(bend.times(t).times(ONE.minus(t)))
);
const riseAt = (t, [, start, end, bend]) => end.minus(start).plus(bend.times(ONE.minus(TWO.times(t))));

function slopeAt(alpha, c, t, terms) {
  return alpha.plus(sumOf(terms.map((term) => (
    term[0].times(c).times(riseAt(t, term)).over(ONE.plus(c.times(inner(t, term))))
  ))));
}

function curvatureAt(c, t, terms) {
  return ZERO.minus(sumOf(terms.map((term) => {
    const one = ONE.plus(c.times(inner(t, term)));
    const rise = c.times(riseAt(t, term)).over(one);
    return term[0].times(rise.times(rise).plus(TWO.times(c).times(term[3]).over(one)));
  })));
}

// About where the charge is largest: by halving, in floats.
function maximiser(alpha, c, terms) {
  const slope = (t) => terms.reduce((sum, [m, p, q, v]) => (
    sum + (m * c * (q - p + v * (1 - 2 * t))) / (1 + c * (p * (1 - t) + q * t + v * t * (1 - t)))
  ), alpha);
  if (slope(1) >= 0) return 1;
  let [low, high] = [0, 1];
  for (let k = 0; k < 60; k++) {
    const middle = 0.5 * (low + high);
    if (slope(middle) > 0) low = middle;
    else high = middle;
  }
  return low;
}

// --- noisy descent with a delta ---

class DescentRelease {
  constructor(found) { [this.found, this.terms, this.delta] = [found, found.terms, found.terms.delta]; }

  problems() {
    const { found, terms } = this;
    const rows = found.coefficients;
    const wrong = namesOf({
      schema: terms.schema === "dpmarket.descent/1",
      delta: terms.delta >= 1e-200 && terms.delta < 1,
      steps: isWhole(terms.steps, 1, 1e6),
      noise_scale: within(terms.noise_scale, 1e-6, 1e40),
      cells: terms.cells === 65536,
      weight_total: isWhole(found.weight_total, 1, LARGEST_TOTAL),
      coefficients: rows.length > 0 && rows.every((row) => row.length === rows[0].length),
    });
    return wrong.length ? wrong : modelProblems(found.model, found.loss, null, [rows.length, rows[0].length]);
  }

  cost() { return [ZERO, ZERO]; }

  covers(weight, used) {
    if (!isWhole(weight, 0, LARGEST_TOTAL)) return false;
    if (weight === 0) return true;
    const [steps, scale] = [rootUp(whole(this.terms.steps)), Fraction.of(this.terms.noise_scale)];
    const mu = TWO.times(whole(weight)).times(CELLS).times(steps).over(scale);
    return keepsDelta(Fraction.of(used), mu, Fraction.of(this.delta));
  }
}

// --- statistics with whole weights and whole noise ---

const SETTINGS = {
  mean: ["low", "high"],
  share: [],
  histogram: ["categories"],
  quantile: ["level", "candidates", "interval_share"],
  "vector mean": ["names", "bound"],
};
const increases = (numbers) => fits(numbers, "[number]") && numbers.length >= 2
  && numbers.every((number, k) => k === 0 || numbers[k - 1] < number);
const areApart = (names, least_) => fits(names, "[text|number]") && names.length >= least_
  && new Set(names.map((name) => JSON.stringify(name))).size === names.length;

function isSensible(question, rows) {
  const { kind, confidence } = question;
  if (typeof kind !== "string" || !Object.hasOwn(SETTINGS, kind)) return false;
  const needed = [...SETTINGS[kind], "confidence", "kind", "rows_per_person"];
  const known = kind === "histogram" ? [...needed, "edges"] : needed;
  if (!needed.every((name) => Object.hasOwn(question, name))) return false;
  if (!Object.keys(question).every((name) => known.includes(name))) return false;
  if (typeof confidence !== "number" || !(confidence > 0 && confidence < 1) || question.rows_per_person !== rows) return false;
  if (kind === "mean") return increases([question.low, question.high]);
  if (kind === "histogram") {
    const edges = question.edges ?? null;
    return areApart(question.categories, 2)
      && (edges === null || (increases(edges) && edges.length === question.categories.length + 1));
  }
  if (kind === "quantile") {
    const { interval_share: share, level } = question;
    return increases(question.candidates) && fits([share, level], "[number]") && share >= 0 && share < 1 && level > 0 && level < 1;
  }
  if (kind === "vector mean") return areApart(question.names, 1) && typeof question.bound === "number" && question.bound > 0;
  return true;
}

// By how many times a weight one person's replaced records move what is released.
function movedBy({ kind, categories }) {
  return ["mean", "share"].includes(kind) || (kind === "histogram" && categories.length === 2) ? 1 : 2;
}

function statisticProblems(one, rows) {
  const { question } = one;
  const wrong = namesOf({
    question: isSensible(question, rows),
    share: one.share > 0 && one.share <= 1,
    unit_exponent: isWhole(one.unit_exponent, -760, 40),
    total_weight: isWholeText(one.total_weight),
    numerators: one.numerators.every((text) => isWholeText(text)),
  });
  if (wrong.length) return wrong;
  const total = BigInt(one.total_weight);
  const scale = whole(movedBy(question)).times(power(24)).over(power(one.unit_exponent));
  const numbers = one.numerators.map(Number);
  const labels = question.categories ?? question.names ?? [question.kind];
  let counted = numbers.length === (movedBy(question) === 1 ? 1 : labels.length);
  if (question.kind === "quantile") {
    counted = numbers.length === (question.interval_share > 0 ? 3 : 1)
      && numbers.every((place) => isWhole(place, 0, question.candidates.length - 1));
  }
  return namesOf({
    total_weight: total >= 1n && total <= 1n << 80n,
    noise_scale: Fraction.of(one.noise_scale).against(scale) === 0,
    numerators: counted,
  });
}

class StatisticsRelease {
  constructor(found) { [this.found, this.parts, this.delta] = [found, Object.values(found.statistics), 0]; }

  problems() {
    const rows = this.found.rows_per_person;
    if (!isWhole(rows, 1, 1e6)) return ["rows_per_person"];
    if (!within(this.parts.length, 1, 1000)) return ["statistics"];
    this.parts.forEach((one) => refuseOtherParts(one, "statistic", "a statistic"));
    const wrong = Object.entries(this.found.statistics)
      .flatMap(([name, one]) => statisticProblems(one, rows).map((part) => `${seen(name)}: ${part}`));
    if (wrong.length) return wrong;
    const spent = sumOf(this.parts.map((one) => new Fraction(BigInt(one.total_weight)).times(power(one.unit_exponent))));
    const total = Fraction.of(this.found.weight_total);
    return namesOf({
      shares: sumOf(this.parts.map(({ share }) => Fraction.of(share))).isAtMost(ONE),
      weight_total: spent.isAtMost(total) && total.isAtMost(spent.times(ONE.plus(power(-50)))),
    });
  }

  cost() { return [ZERO, ZERO]; }

  covers(weight, used) {
    const unit = power(Math.min(...this.parts.map((one) => one.unit_exponent)));
    return Fraction.of(weight).over(unit).denominator === 1n && weight <= used;
  }
}

const FAMILIES = { norm: NormRelease, descent: DescentRelease, statistics: StatisticsRelease };
