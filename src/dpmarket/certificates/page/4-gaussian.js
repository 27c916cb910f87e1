// The Gaussian mechanism's delta at an epsilon, for two normals whose means differ by mu: tail(x) - e^epsilon tail(x + mu)
// with x = epsilon / mu - mu / 2. Tails are computed with some 400 bits; what they lose is far below the room that is
// left for it.

const DIGITS = 400n; // bits that count
const UNIT = 1n << 520n; // fixed point, for sums and continued fractions
const SPARE = new Fraction(1n, 10n ** 40n);
const LARGEST_EPSILON = whole(10000); // beyond it a delta of 1 is charged
const SMALLEST_POWER = whole(-30000); // nothing is seen of e to this power
const NEAR_END = whole(4);
const DEPTH = 1000n;
const ROOT_OF_TWO_PI = rootUp(new Fraction(
  62831853071795864769252867665590057683943387987502116419498891846156328125724179972560696506842341359n, 10n ** 100n,
));

function keepsDelta(epsilon, mu, delta) {
  if (epsilon.numerator < 0n || !epsilon.isAtMost(LARGEST_EPSILON) || !mu.isAtMost(LARGEST_EPSILON)) return false;
  const e = cut(epsilon);
  const x = cut(e.over(mu).minus(mu.over(TWO)));
  const near = normalTail(x);
  const left = near.minus(exponential(e).times(normalTail(cut(x.plus(mu)))));
  const found = (left.numerator > 0n ? left : ZERO).plus(SPARE.times(near));
  return found.times(ONE.plus(SPARE)).isAtMost(delta);
}

// The probability that a standard normal exceeds x: for x from 0 to 4 it is 1/2 - density(x) (x + x^3/3 + x^5/(3 5) + ...),
// beyond it Laplace's continued fraction, density(x) / (x + 1/(x + 2/(x + ...))).
function normalTail(x) {
  if (x.numerator < 0n) return ONE.minus(normalTail(ZERO.minus(x)));
  const density = exponential(ZERO.minus(x.times(x)).over(TWO)).over(ROOT_OF_TWO_PI);
  const fixed = (x.numerator * UNIT) / x.denominator;
  if (!x.isAtMost(NEAR_END)) {
    let below = fixed;
    for (let k = DEPTH; k > 0n; k--) below = fixed + (k * UNIT * UNIT) / below;
    return cut(density.times(new Fraction(UNIT, below)));
  }
  const square = (fixed * fixed) / UNIT;
  let [term, total, k] = [fixed, fixed, 1n];
  while (term > 0n) {
    k += 2n;
    term = (term * square) / (k * UNIT);
    total += term;
  }
  return cut(new Fraction(1n, 2n).minus(density.times(new Fraction(total, UNIT))));
}

// A fraction with enough digits that count.
function cut(x) {
  const shift = DIGITS + BigInt(bitLength(x.denominator) - bitLength(x.numerator));
  if (shift < 0n) return new Fraction((x.numerator >> -shift) << -shift, x.denominator);
  return new Fraction((x.numerator << shift) / x.denominator, 1n << shift);
}

// e^x: of x halved until it is small, squared as often.
function exponential(x) {
  if (x.isAtMost(SMALLEST_POWER)) return ZERO;
  const halvings = BigInt(bitLength(x.absolute().floor()) + 1);
  const small = (x.numerator * UNIT) / (x.denominator << halvings);
  let [term, total, k] = [UNIT, UNIT, 0n];
  while (term !== 0n) {
    k += 1n;
    term = (term * small) / (k * UNIT);
    total += term;
  }
  let found = new Fraction(total, UNIT);
  for (let j = 0n; j < halvings; j++) found = cut(found.times(found));
  return found;
}
