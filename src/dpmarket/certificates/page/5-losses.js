// What a weight costs in privacy, and what releasing on a grid costs, for every kind of release known here. All
// formulas are derived in the documentation; a maximum of a concave function is bounded by its tangent.

function lossUp(weight, release) {
  const a = Fraction.of(weight);
  if (a.numerator === 0n) return ZERO;
  if (release.kind === STATISTIC) return statisticLossUp(a, release);
  return release.kind === SOFTMAX ? softmaxLossUp(a, release) : binaryLossUp(a, release);
}

function releaseUp(release) {
  if (release.kind === STATISTIC) return ZERO; // whole numbers with whole noise: nothing is rounded
  if (isGaussian(release)) return gaussianReleaseUp(release);
  return release.kind === SOFTMAX ? softmaxReleaseUp(release) : binaryReleaseUp(release);
}

// --- two classes ---

// With L = a eta R1 / 2, h = a R2^2 / (r Lambda) and t = 1 - s the loss is 2 L + max g(t),
// g(t) = -L t + r log(1 + h t (1 - t)); g is concave, so that max g <= g(t) + |g'(t)| for every t.
function binaryLossUp(a, release) {
  const [eta, l2, bound, long] = [release.noise_rate, release.l2, release.row_bound, longest(release)].map(Fraction.of);
  const r = Fraction.of(release.rows_per_person);
  const linear = a.times(eta).times(bound).over(TWO);
  const h = a.times(long).times(long).over(r.times(l2));
  if (r.times(h).isAtMost(linear)) return TWO.times(linear);
  const t = stationary(linear, h, r);
  const curved = ONE.plus(h.times(t).times(ONE.minus(t)));
  const slope = r.times(h).times(ONE.minus(TWO.times(t))).over(curved).minus(linear);
  return TWO.times(linear).minus(linear.times(t)).plus(r.times(log1pUp(curved.minus(ONE)))).plus(slope.absolute());
}

const PLACES = 256n;

function stationary(linear, h, r) {
  const unit = 1n << PLACES;
  const [lh, rh] = [linear.times(h), r.times(h)];
  const middle = h.times(linear.plus(TWO.times(r)));
  const four = whole(4);
  const inside = lh.times(lh).plus(four.times(rh).times(rh)).plus(four.times(linear).times(linear).times(h));
  const root = new Fraction(wholeRoot((inside.numerator * unit * unit) / inside.denominator), unit);
  const sum = middle.plus(root);
  const t = sum.numerator > 0n ? TWO.times(rh.minus(linear)).over(sum) : new Fraction(1n, 2n);
  return least(new Fraction((t.numerator * unit) / t.denominator, unit), ONE);
}

// How far the optimum may be from what was found, and the grid's width; null if the grid is too fine for it.
function accuracyOf(release) {
  const [g, l2] = [release.grid, release.l2].map(Fraction.of);
  const rho = Fraction.of(release.gradient_bound).plus(Fraction.of(release.noise_accuracy)).over(l2);
  const gap = g.minus(TWO.times(rho));
  return gap.isAtMost(ZERO) ? null : { rho, logarithm: log1pUp(whole(4).times(rho).over(gap)) };
}

function binaryReleaseUp(release) {
  const found = accuracyOf(release);
  if (found === null) return null;
  const n = whole(release.coef_grid.length);
  const [l2, bound, long, total, eta] = [
    release.l2, release.row_bound, longest(release), release.weight_total, release.noise_rate,
  ].map(Fraction.of);
  const root = rootUp(n);
  const third = total.times(long).times(long).times(long).over(whole(6).times(rootDown(whole(3))).times(l2));
  const bent = root.times(least(n.times(long), third));
  const quarter = total.times(bound).over(whole(4));
  let moved = root.times(l2.plus(quarter.times(bound)));
  if (jointOf(release) !== n.numerator) {
    // N of the vector of ones, and the largest sum of absolute values of a row.
    const joint = new Fraction(jointOf(release));
    const ones = rootUp(joint).plus(n.minus(joint));
    const sums = least(root.times(long), rootUp(joint.numerator > 1n ? joint : ONE).times(bound));
    moved = l2.times(ones).plus(quarter.times(sums));
  }
  const slope = eta.over(TWO).times(moved).plus(bent);
  return n.times(found.logarithm).plus(TWO.times(found.rho).times(slope));
}

// --- more than two classes ---

// With L = a eta R and c = a R^2 / Lambda the loss is L + max f(s), f(s) = L s + a sum of m log(1 + u s + v s^2).
function softmaxLossUp(a, release) {
  const [eta, l2, bound] = [release.noise_rate, release.l2, release.row_bound].map(Fraction.of);
  const linear = a.times(eta).times(bound);
  const c = a.times(bound).times(bound).over(l2);
  return linear.plus(determinants(c, release).map((terms) => largestUp(linear, terms)).reduce(least));
}

// The logarithms [m, u, v] of each bound; with up to n rows the second is never the smaller one.
function determinants(c, release) {
  const classes = whole(release.classes.length);
  const others = classes.minus(ONE);
  const [n, r] = [release.n_coefficients, release.rows_per_person].map((count) => new Fraction(count));
  const each = c.over(r.times(others));
  const bend = each.times(classes);
  const found = [[[r, bend, ZERO.minus(bend)], [r.times(classes.minus(TWO)), each, ZERO]]];
  if (!r.isAtMost(n)) {
    const size = n.times(others);
    found.push([[size, TWO.times(c).over(size), ZERO.minus(c.times(classes).over(others.times(size)))]]);
  }
  return found;
}

function slopeAt(s, linear, terms) {
  return terms.reduce((sum, [m, u, v]) => {
    const inside = ONE.plus(s.times(u.plus(v.times(s))));
    return sum.plus(m.times(u.plus(TWO.times(v).times(s))).over(inside));
  }, linear);
}

const HALVINGS = 70n;

// Every f is concave: for any s its maximum is at most f(s) + max(f'(s) (1 - s), -f'(s) s).
function largestUp(linear, terms) {
  let [low, high] = [ZERO, ONE];
  if (ZERO.isAtMost(slopeAt(high, linear, terms))) low = high;
  while (!high.minus(low).isAtMost(new Fraction(1n, 1n << HALVINGS))) {
    const middle = low.plus(high).over(TWO);
    if (slopeAt(middle, linear, terms).numerator > 0n) low = middle;
    else high = middle;
  }
  const slope = slopeAt(low, linear, terms);
  const value = terms.reduce(
    (sum, [m, u, v]) => sum.plus(m.times(log1pUp(low.times(u.plus(v.times(low)))))), linear.times(low),
  );
  const [rising, falling] = [slope.times(ONE.minus(low)), ZERO.minus(slope.times(low))];
  return value.plus(rising.isAtMost(falling) ? falling : rising);
}

function softmaxReleaseUp(release) {
  const found = accuracyOf(release);
  if (found === null) return null;
  const [classes, n] = [whole(release.classes.length), new Fraction(release.n_coefficients)];
  const [l2, bound, total, eta] = [release.l2, release.row_bound, release.weight_total, release.noise_rate]
    .map(Fraction.of);
  const square = total.times(bound).times(bound);
  const bent = TWO.times(classes.minus(ONE)).times(least(n.times(bound), square.times(bound).over(classes.times(l2))));
  const slope = eta.over(TWO).times(classes.times(l2).plus(square)).plus(bent);
  return classes.times(n).times(found.logarithm).plus(TWO.times(found.rho).times(rootUp(n)).times(slope));
}
