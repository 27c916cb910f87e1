// What a weight costs in privacy, for every family of releases: the same questions of each.

const CELLS = whole(65536);
const MOST_CELL = 1n << 63n;
const LARGEST_TOTAL = 2 ** 36;
const LARGEST_WEIGHT = 1n << 80n;

const sumOf = (fractions) => fractions.reduce((sum, one) => sum.plus(one), ZERO);
const power = (exponent) => (exponent >= 0 ? new Fraction(1n << BigInt(exponent)) : new Fraction(1n, 1n << BigInt(-exponent)));

// --- constants, derived from the loss, the norm and the rows ---

function constantsOf(terms) {
  const loss = terms.loss.kind === "softmax" ? softmaxConstants(terms.loss) : sigmoidConstants(terms.loss);
  if (loss === null) return null;
  const found = { ...loss, ...normConstants(terms.norm) };
  if (terms.private === "labels") {
    return found.span === null ? null : { ...found, reach: found.span.over(TWO), bounds: [[]] };
  }
  const rows = whole(terms.rows_per_person);
  found.bounds = [found.terms.map(([m, p, q, v]) => [m.times(rows), p.over(rows), q.over(rows), v.over(rows)])];
  if (found.coefficients.against(rows) < 0) {
    const size = found.coefficients.times(found.rank);
    const spread = [1, 2, 3].map((k) => sumOf(found.terms.map((term) => term[0].times(term[k]))).over(size));
    found.bounds.push([[size, ...spread]]);
  }
  return found;
}

function softmaxConstants({ classes }) {
  const k = whole(classes);
  const others = k.minus(ONE);
  const terms = [[ONE, ZERO, ZERO, k.over(others)]];
  if (others.against(ONE) > 0) terms.push([others.minus(ONE), ZERO, ONE.over(others), ZERO]);
  return { outputs: k, rank: others, reach: TWO, span: TWO, terms, curvature_1: ONE,
    third: TWO.minus(TWO.over(k)), relative_third: TWO };
}

function sigmoidConstants(loss) {
  const [scale, slope] = [Fraction.of(loss.scale), Fraction.of(loss.slope)];
  const [[shift, moved], [target, by], [low, high]] = [loss.shift, loss.target, loss.labels].map((pair) => pair.map(Fraction.of));
  const ends = [low, high].map((label) => target.plus(by.times(label)));
  const [first, last] = ends[0].isAtMost(ends[1]) ? ends : [ends[1], ends[0]];
  const isShort = (label) => label.absolute().isAtMost(whole(2 ** 20))
    && shift.plus(moved.times(label)).absolute().isAtMost(whole(2e9));
  if (!(low.isAtMost(high) && isShort(low) && isShort(high) && ZERO.isAtMost(first) && last.isAtMost(ONE))) return null;
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

function normConstants({ separate, constant, euclidean_bound: bounded }) {
  const c = Fraction.of(constant ?? 0);
  const n = whole(separate.length + (constant !== null ? 1 : 0));
  const apart = separate.filter(Boolean).length;
  const root = rootUp(n);
  if (!apart) {
    const bound = c.numerator ? rootUp(ONE.plus(c.times(c))) : ONE;
    return { coefficients: n, row_bound: bound, row_bound_2: bound, largest_sum: root.times(bound), ones: root };
  }
  const joint = whole(separate.length - apart);
  const bound = ONE.plus(c);
  const euclidean = Fraction.of(bounded);
  const long = least(rootUp(euclidean.times(euclidean).plus(c.times(c))), bound);
  const jointRoot = joint.numerator ? rootUp(joint) : ZERO;
  return {
    coefficients: n,
    row_bound: bound,
    row_bound_2: long,
    largest_sum: least(root.times(long), (joint.numerator ? jointRoot : rootUp(ONE)).times(bound)),
    ones: jointRoot.plus(n).minus(joint),
  };
}

// --- models ---

function modelProblems({ features, classes, encoder }, loss, norm, shape = null) {
  const { name: names, low, high } = features;
  const outputs = loss.classes ?? 1;
  const network = loss.kind === "torch"; // with weights of its own, whatever its features
  const counted = names.length > 0
    && (network || (norm === null ? [shape[1], shape[1] - 1] : [norm.separate.length]).includes(names.length));
  const bounded = low.length === names.length && high.length === names.length && low.every((one, k) => one < high[k]);
  return namesOf({
    coefficients: norm !== null || shape[0] === (network ? 1 : outputs),
    "scale, shift, target or labels of the loss": loss.kind !== "sigmoid" || isKnown(loss, classes !== null),
    features: counted && bounded,
    classes: classes === null ? outputs === 1 : classes.length === Math.max(outputs, 2),
    encoder: encoder === null || (counted && isDeclared(encoder, names, norm)),
  });
}

// Whether a loss is of labels 0 to 1 (logistic, hinge) or of residuals (quantile, log-cosh).
function isKnown({ scale, slope, labels, target, shift }, twoClasses) {
  if (twoClasses || target[1] !== 0) return scale === 1 && [...labels, ...target].join() === "0,1,0,1";
  const ofResiduals = shift[0] === 0 && shift[1] === -slope && labels[0] < labels[1];
  return ofResiduals && (scale === 1 || Math.abs(scale * slope - 4) <= 1e-8);
}

// Whether an encoder makes these features, and rows as short as their norm says.
function isDeclared({ columns, radius }, features, norm) {
  const [names, numbers] = [[], []];
  let groups = 0;
  for (const [name, part] of Object.entries(columns)) {
    const levels = (part.categories ?? []).map(String);
    if ("boolean" in part) levels.push("yes");
    if (part.other) levels.push("other");
    if (part.missing_category) levels.push("missing");
    if ("low" in part || "first" in part) numbers.push(name);
    names.push(...levels.map((level) => `${name}=${level}`));
    groups += levels.length ? 1 : 0;
  }
  const same = (one, other) => written([...one].sort()) === written([...other].sort());
  if (!same([...numbers, ...names], features)) return false;
  if (norm === null || !norm.separate.includes(true)) return true;
  const joint = features.filter((_, k) => !norm.separate[k]);
  const length = Math.min(radius, Math.sqrt(numbers.length));
  const largest = joint.length ? length + groups : Math.sqrt(numbers.length) * length + groups;
  const shortest = (length ** 2 + groups) / largest ** 2;
  return (!joint.length || same(joint, numbers)) && norm.euclidean_bound ** 2 >= shortest * (1 - 1e-8);
}

// --- objective perturbation with noise of a norm ---

class NormRelease {
  constructor(found) {
    [this.found, this.terms, this.delta, this.charged] = [found, found.terms, 0, Fraction.of(found.numerical_epsilon)];
    this.constants = constantsOf(this.terms);
    this.cost = this.constants && this.gridCost(this.constants);
  }

  problems() {
    if (this.constants === null) return ["loss"];
    const { outputs, coefficients } = this.constants;
    const rows = this.found.cells;
    const isCell = (cell) => BigInt(cell) <= MOST_CELL && BigInt(cell) >= -MOST_CELL;
    const good = rows.length === outputs.toNumber()
      && rows.every((row) => row.length === coefficients.toNumber() && row.every(isCell));
    const size = outputs.times(coefficients).toNumber();
    return [...(good ? [] : ["cells"]), ...modelProblems(this.found.model, this.terms.loss, this.terms.norm),
      ...intervalsProblems(this.found, this.terms.loss, size, false)];
  }

  // What releasing on the grid costs, rounded up; null: it is too fine.
  gridCost(own) {
    const { found, terms } = this;
    const [g, total, eta, gradient, accuracy] = [
      found.grid, found.weight_total, found.noise_rate, found.gradient_bound, found.noise_accuracy,
    ].map(Fraction.of);
    const [l2, long] = [Fraction.of(terms.l2), own.row_bound_2];
    const share = TWO.times(gradient.plus(accuracy)).over(l2.times(g));
    if (share.against(ONE) >= 0) return null;
    const noise = own.outputs.times(l2).times(own.ones)
      .plus(total.times(own.curvature_1).times(own.row_bound).times(own.largest_sum));
    const bySize = own.relative_third.times(own.coefficients).times(own.rank).times(long);
    const bent = least(bySize, own.third.times(total).times(long).times(long).times(long).over(l2));
    const slope = eta.over(TWO).times(noise).plus(rootUp(own.coefficients).times(bent));
    const logs = log1pUp(TWO.times(share).over(ONE.minus(share)));
    return own.outputs.times(own.coefficients).times(logs).plus(share.times(g).times(slope));
  }

  covers(weight, used) {
    if (weight === 0 || this.cost === null) return weight === 0;
    return this.charge(Fraction.of(weight)).plus(this.cost).isAtMost(used);
  }

  charge(weight) {
    const { reach, row_bound: bound, row_bound_2: long, bounds } = this.constants;
    const [eta, l2] = [this.found.noise_rate, this.terms.l2].map(Fraction.of);
    const alpha = weight.times(eta).times(reach).times(bound).over(TWO);
    const c = weight.times(long).times(long).over(l2);
    return bounds.map((terms) => {
      const t = Fraction.of(maximiser(alpha.toNumber(), c.toNumber(), terms.map((term) => term.map((x) => x.toNumber()))));
      const slope = slopeAt(alpha, c, t, terms);
      const logs = sumOf(terms.map((term) => term[0].times(log1pUp(c.times(inner(t, term))))));
      const [right, left] = [slope.times(ONE.minus(t)), ZERO.minus(slope.times(t))];
      return alpha.times(ONE.plus(t)).plus(logs).plus(right.isAtMost(left) ? left : right);
    }).reduce(least);
  }
}

const inner = (t, [, start, end, bend]) => (
  start.times(ONE.minus(t)).plus(end.times(t)).plus(bend.times(t).times(ONE.minus(t)))
);

function slopeAt(alpha, c, t, terms) {
  return alpha.plus(sumOf(terms.map((term) => {
    const [m, start, end, bend] = term;
    const rise = end.minus(start).plus(bend.times(ONE.minus(TWO.times(t))));
    return m.times(c).times(rise).over(ONE.plus(c.times(inner(t, term))));
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

// --- noisy descent with a delta: nothing is rounded ---

class DescentRelease {
  constructor(found) {
    [this.found, this.terms, this.delta, this.cost, this.charged] = [found, found.terms, found.terms.delta, ZERO, ZERO];
  }

  problems() {
    const { coefficients: rows, model, loss } = this.found;
    if (!rows.length || rows.some((row) => row.length !== rows[0].length)) return ["coefficients"];
    return [...modelProblems(model, loss, null, [rows.length, rows[0].length]),
      ...intervalsProblems(this.found, loss, rows.length * rows[0].length, true)];
  }

  covers(weight, used) {
    if (!Number.isInteger(weight) || weight > LARGEST_TOTAL) return false;
    const [steps, scale] = [rootUp(whole(this.terms.steps)), Fraction.of(this.terms.noise_scale)];
    const mu = TWO.times(whole(weight)).times(CELLS).times(steps).over(scale);
    return weight === 0 || keepsDelta(used, mu, Fraction.of(this.delta));
  }
}

// --- statistics with whole weights and whole noise ---

function statisticProblems({ question, numerators, total_weight: total, unit_exponent: exponent, noise_scale: scale }, rows) {
  const { kind, edges = null, candidates = null, low, high } = question;
  const labels = question.categories ?? question.names ?? ["one"];
  // By how many times a weight one person's replaced records move what is released.
  const moved = ["mean", "share"].includes(kind) || (kind === "histogram" && labels.length === 2) ? 1 : 2;
  let expected = moved === 1 ? 1 : labels.length;
  if (kind === "quantile") expected = question.interval_share > 0 ? 3 : 1;
  return namesOf({
    question: question.rows_per_person === rows && (kind !== "mean" || low < high)
      && labels.length >= (kind === "histogram" ? 2 : 1) && (edges === null || edges.length === labels.length + 1),
    total_weight: BigInt(total) >= 1n && BigInt(total) <= LARGEST_WEIGHT,
    noise_scale: Fraction.of(scale).against(whole(moved).times(power(24)).over(power(exponent))) === 0,
    numerators: numerators.length === expected
      && (candidates === null || numerators.every((place) => within(Number(place), 0, candidates.length - 1))),
  });
}

class StatisticsRelease {
  constructor(found) {
    [this.found, this.parts, this.delta, this.cost, this.charged] = [found, Object.values(found.statistics), 0, ZERO, ZERO];
  }

  problems() {
    if (!within(this.parts.length, 1, 1000)) return ["statistics"];
    const wrong = Object.entries(this.found.statistics).flatMap(([name, one]) => (
      statisticProblems(one, this.found.rows_per_person).map((part) => `${seen(name)}: ${part}`)));
    const spent = sumOf(this.parts.map((one) => new Fraction(BigInt(one.total_weight)).times(power(one.unit_exponent))));
    const total = Fraction.of(this.found.weight_total);
    return [...wrong, ...namesOf({
      weight_total: spent.isAtMost(total) && total.isAtMost(spent.times(ONE.plus(power(-50)))),
      shares: sumOf(this.parts.map(({ share }) => Fraction.of(share))).isAtMost(ONE),
    })];
  }

  covers(weight, used) {
    const unit = power(Math.min(...this.parts.map((one) => one.unit_exponent)));
    return Fraction.of(weight).over(unit).denominator === 1n && Fraction.of(weight).isAtMost(used);
  }
}

// --- a noisy Hessian for intervals: a share of every epsilon, in whole units ---

function spentOnIntervals({ intervals = null }, { epsilon, used }) {
  if (intervals === null || used === 0) return ZERO;
  const unit = Fraction.of(intervals.unit);
  const units = Fraction.of(epsilon * intervals.share).over(unit);
  return unit.times(new Fraction(units.numerator / units.denominator));
}

function isCovered(release, line) {
  const left = Fraction.of(line.used).minus(spentOnIntervals(release.found, line));
  return ZERO.isAtMost(left) && release.covers(line.weight, left);
}

function intervalsProblems({ intervals = null }, { shift = [0, 0] }, size, clips) {
  if (intervals === null) return [];
  const expected = size * (size + 1) / 2 + (clips || shift[1] !== 0 ? 1 : 0);
  return namesOf({ intervals: intervals.cells.length === expected && (intervals.clip !== null) === clips });
}

const FAMILIES = { norm: NormRelease, descent: DescentRelease, statistics: StatisticsRelease };
