// What a weight costs in privacy, and what releasing on a grid costs, where noise is Gaussian: a delta, at an epsilon.
// Normal tails are computed with several hundred bits; what they lose is far below the room that is left for it.

const DIGITS = 400n; // bits that count
const SPARE = new Fraction(1n, 10n ** 40n);
const FARTHEST = whole(60);
const NUMERICAL_DELTA = new Fraction(1n, 1n << 60n);
const LARGEST_COST = whole(10);
const LARGEST_WITH_ROWS = whole(10000);

// Whether a weight's delta at this epsilon, with the release, is at most the delta promised.
function gaussianCovers(weight, epsilon, kappa, release) {
  if (epsilon.numerator < 0n || !kappa.isAtMost(LARGEST_COST)) return false;
  const [a, eta, l2, bound] = [weight, release.noise_rate, release.l2, release.row_bound].map(Fraction.of);
  const once = a.times(eta).times(bound);
  const mu = hasManyClasses(release) ? once.times(rootUp(TWO)) : once;
  const c = a.times(bound).times(bound).over(l2);
  const e = cut(epsilon);
  const found = gaussianBounds(c, release).map(([share, terms]) => deltaOf(e, mu, share, terms, release)).reduce(least);
  const room = ONE.plus(SPARE);
  const total = found.times(room).times(exponential(kappa)).plus(NUMERICAL_DELTA);
  return total.times(room).isAtMost(Fraction.of(release.delta));
}

// Every sum that may be charged: the Hessian's share, and terms [how many, which share of mu, whether it is taken off].
function gaussianBounds(c, release) {
  const [half, single] = [new Fraction(1n, 2n), release.rows_per_person === 1n];
  if (!hasManyClasses(release)) {
    const given = [c, [[ONE, ONE, false], [ONE, half, false], [ONE, half, true]]];
    return single ? [given, [log1pUp(c.over(whole(4))), [[ONE, ONE, true], [TWO, half, true]]]] : [given];
  }
  const classes = whole(release.classes.length);
  const others = classes.minus(ONE);
  const middle = rootUp(whole(3)).over(TWO);
  const terms = [
    [others, ONE, true], [others.times(others.minus(ONE)), middle, true], [TWO.times(others), half, true],
  ];
  return [[single ? others.times(log1pUp(c.over(classes))) : c.times(others).over(classes), terms]];
}

function deltaOf(e, mu, share, terms, release) {
  const left = e.minus(share.times(ONE.plus(SPARE)));
  const rows = release.rows_per_person > 1n;
  if (left.numerator < 0n || (rows && !e.isAtMost(LARGEST_WITH_ROWS))) return ONE;
  const factor = !rows || e.numerator === 0n ? ONE : exponential(e).minus(ONE).over(e);
  const total = terms.reduce((sum, [count, length, moved]) => {
    const [at, distance] = [moved ? left : e, length.times(mu)];
    const part = rows ? factor.times(distance).times(excessOver(cut(at.over(distance)))) : deltaAt(at, distance);
    return part.numerator > 0n ? sum.plus(count.times(cut(part))) : sum;
  }, ZERO);
  return least(total, ONE);
}

function deltaAt(at, distance) {
  const x = cut(at.over(distance).minus(distance.over(TWO)));
  const far = x.plus(distance);
  // What is taken off must not be too much: beyond the series' reach it is nothing.
  const taken = far.isAtMost(FARTHEST) ? exponential(at).times(normalTail(cut(far))) : ZERO;
  return normalTail(x).minus(taken);
}

// By how much a standard normal exceeds x in the mean; far out the density, which is larger.
function excessOver(x) {
  return x.isAtMost(FARTHEST) ? densityAt(x).minus(x.times(normalTail(x))) : densityAt(x);
}

function densityAt(x) {
  return exponential(ZERO.minus(x.times(x)).over(TWO)).over(rootOfTwoPi(DIGITS));
}

// The probability that a standard normal exceeds x: 1/2 - density(x) (x + x^3/3 + x^5/(3 5) + ...) for x from 0 to 60,
// beyond it the density itself, which is larger.
function normalTail(x) {
  if (x.numerator < 0n) return ONE.minus(normalTail(ZERO.minus(x)));
  if (!x.isAtMost(FARTHEST)) return densityAt(x);
  // The difference is about e^(-x^2 / 2), of factors as large as its inverse: so many bits more are needed.
  const square = x.times(x);
  const bits = DIGITS + 64n + 2n * square.floor();
  const unit = 1n << bits;
  const step = (square.numerator * unit) / square.denominator;
  let term = (x.numerator * unit) / x.denominator;
  let [total, k] = [term, 1n];
  while (term > 0n) {
    k += 2n;
    term = (term * step) / (k * unit);
    total += term;
  }
  const density = exponential(ZERO.minus(square).over(TWO), bits).over(rootOfTwoPi(bits));
  return cut(new Fraction(1n, 2n).minus(density.times(new Fraction(total, unit))));
}

// --- functions of so many bits ---

// A fraction with enough digits that count.
function cut(x) {
  const shift = DIGITS + BigInt(bitLength(x.denominator) - bitLength(x.numerator));
  if (shift < 0n) return new Fraction((x.numerator >> -shift) << -shift, x.denominator);
  return new Fraction((x.numerator << shift) / x.denominator, 1n << shift);
}

const SMALLEST_POWER = whole(-30000);

// e^x to so many bits that count, for x of at most some ten thousands; 0 where nothing would be seen of it.
function exponential(x, bits = DIGITS) {
  if (x.isAtMost(SMALLEST_POWER)) return ZERO;
  const places = bits + 64n;
  const unit = 1n << places;
  const two = logarithmOfTwo(places);
  const scaled = (x.numerator * unit) / x.denominator;
  const k = new Fraction(scaled, two).floor();
  const rest = scaled - k * two; // at least 0 and less than log 2
  let [term, total, j] = [unit, unit, 0n];
  while (term > 0n) {
    j += 1n;
    term = (term * rest) / (j * unit);
    total += term;
  }
  return k >= 0n ? new Fraction(total << k, unit) : new Fraction(total, unit << -k);
}

const KNOWN = new Map();

function remembered(name, bits, make) {
  const key = `${name} ${bits}`;
  if (!KNOWN.has(key)) KNOWN.set(key, make());
  return KNOWN.get(key);
}

// The sum of sign^j / ((2 j + 1) base^(2 j + 1)): artanh(1 / base), or arctan(1 / base) with the sign -1.
function inverseSeries(base, sign, unit) {
  let [power, total, k, turn] = [unit / base, unit / base, 1n, 1n];
  while (power > 0n) {
    power /= base * base;
    k += 2n;
    turn *= sign;
    total += turn * (power / k);
  }
  return total;
}

function logarithmOfTwo(bits) {
  return remembered("log 2", bits, () => (2n * inverseSeries(3n, 1n, 1n << (bits + 32n))) >> 32n);
}

// The root of 2 pi, with pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239).
function rootOfTwoPi(bits) {
  return remembered("root of 2 pi", bits, () => {
    const unit = 1n << (bits + 32n);
    const pi = 16n * inverseSeries(5n, -1n, unit) - 4n * inverseSeries(239n, -1n, unit);
    return new Fraction(wholeRoot(2n * pi * unit), unit);
  });
}

// --- the release ---

function gaussianReleaseUp(release) {
  const found = accuracyOf(release);
  if (found === null) return null;
  const n = new Fraction(release.n_coefficients);
  const [g, l2, bound, total, eta] = [
    release.grid, release.l2, release.row_bound, release.weight_total, release.noise_rate,
  ].map(Fraction.of);
  const square = total.times(bound).times(bound);
  const cube = square.times(bound);
  let [size, steepest] = [n, l2.plus(square.over(whole(4)))];
  let bent = least(n.times(bound), cube.times(rootUp(new Fraction(1n, 3n))).over(whole(6).times(l2)));
  if (hasManyClasses(release)) {
    const classes = whole(release.classes.length);
    [size, steepest] = [classes.times(n), l2.plus(square.over(TWO))];
    bent = TWO.times(classes.minus(ONE)).times(least(n.times(bound), cube.over(classes.times(l2))));
  }
  const [deviation, root] = [TWO.over(eta), rootUp(size)];
  const within = deviation.times(root.plus(rootUp(whole(120).times(log1pUp(ONE)))));
  const longestNoise = within.plus(TWO.times(steepest).times(root).times(g.over(TWO).plus(found.rho)));
  const slope = root.times(steepest).times(longestNoise).over(deviation.times(deviation)).plus(rootUp(n).times(bent));
  return size.times(found.logarithm).plus(TWO.times(found.rho).times(slope));
}
