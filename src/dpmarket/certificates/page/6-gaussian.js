// The Gaussian mechanism's delta at an epsilon, for two normals whose means differ by mu: tail(x) - e^epsilon tail(x + mu)
// with x = epsilon / mu - mu / 2. Tails are computed with several hundred bits; what they lose is far below the room
// that is left for it.

const DIGITS = 400n; // bits that count
const SPARE = new Fraction(1n, 10n ** 40n);
const FARTHEST = whole(60);
const LARGEST_EPSILON = whole(10000); // beyond it a delta of 1 is charged

function keepsDelta(epsilon, mu, delta) {
  if (epsilon.numerator < 0n || !epsilon.isAtMost(LARGEST_EPSILON) || !mu.isAtMost(LARGEST_EPSILON)) return false;
  const e = cut(epsilon);
  const x = cut(e.over(mu).minus(mu.over(TWO)));
  const far = x.plus(mu);
  // What is taken off must not be too much: beyond the series' reach it is nothing.
  const taken = far.isAtMost(FARTHEST) ? exponential(e).times(normalTail(cut(far))) : ZERO;
  const tail = normalTail(x);
  const left = tail.minus(taken);
  const found = (left.numerator > 0n ? left : ZERO).plus(SPARE.times(tail));
  return found.times(ONE.plus(SPARE)).isAtMost(delta);
}

// The probability that a standard normal exceeds x: 1/2 - density(x) (x + x^3/3 + x^5/(3 5) + ...) for x from 0 to 60,
// beyond it e^(-x^2 / 2), which is larger.
function normalTail(x) {
  if (x.numerator < 0n) return ONE.minus(normalTail(ZERO.minus(x)));
  if (!x.isAtMost(FARTHEST)) return exponential(ZERO.minus(x.times(x)).over(TWO));
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
