// Exact arithmetic: every float is a fraction, and sums, products and quotients of fractions are exact.
// Logarithms and roots come out as fractions just above or below the true value, never on the wrong side.

// Denominators are mostly powers of two, times little else: the twos are taken out first.
function greatestDivisor(a, b) {
  if (!a || !b) return a || b;
  const [twos, others] = [a & -a, b & -b];
  [a, b] = [a / twos, b / others];
  while (b > 1n) [a, b] = [b, a % b];
  return (b ? 1n : a) * (twos < others ? twos : others);
}

class Fraction {
  constructor(numerator, denominator = 1n) {
    if (denominator < 0n) [numerator, denominator] = [-numerator, -denominator];
    const divisor = greatestDivisor(numerator < 0n ? -numerator : numerator, denominator) || 1n;
    this.numerator = numerator / divisor;
    this.denominator = denominator / divisor;
  }

  // The fraction that a float is.
  static of(number) {
    if (typeof number === "bigint") return new Fraction(number);
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, number);
    const bits = view.getBigUint64(0);
    const exponent = Number((bits >> 52n) & 0x7ffn);
    let mantissa = bits & 0xfffffffffffffn;
    if (exponent) mantissa |= 1n << 52n;
    if (bits >> 63n) mantissa = -mantissa;
    const power = (exponent || 1) - 1075;
    return power >= 0 ? new Fraction(mantissa << BigInt(power)) : new Fraction(mantissa, 1n << BigInt(-power));
  }

  plus(other) {
    return new Fraction(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  minus(other) { return this.plus(new Fraction(-other.numerator, other.denominator)); }

  times(other) {
    return new Fraction(this.numerator * other.numerator, this.denominator * other.denominator);
  }

  over(other) {
    return new Fraction(this.numerator * other.denominator, this.denominator * other.numerator);
  }

  // Below 0, 0 or above 0 as this is less than, equal to or more than the other.
  against(other) {
    const difference = this.numerator * other.denominator - other.numerator * this.denominator;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  isAtMost(other) { return this.against(other) <= 0; }

  absolute() { return this.numerator < 0n ? new Fraction(-this.numerator, this.denominator) : this; }

  // The whole number at or below this.
  floor() {
    const quotient = this.numerator / this.denominator;
    return this.numerator < 0n && quotient * this.denominator !== this.numerator ? quotient - 1n : quotient;
  }

  toNumber() {
    // Enough digits for showing: scaled so that the quotient has about 70 bits.
    const shift = BigInt(70 + bitLength(this.denominator) - bitLength(this.numerator));
    const scaled = shift >= 0n
      ? (this.numerator << shift) / this.denominator
      : this.numerator / (this.denominator << -shift);
    return Number(scaled) * 2 ** -Number(shift);
  }
}

const whole = (n) => new Fraction(BigInt(n));
const ZERO = whole(0);
const ONE = whole(1);
const TWO = whole(2);
const least = (a, b) => (a.isAtMost(b) ? a : b);

function bitLength(n) {
  return n === 0n ? 0 : (n < 0n ? -n : n).toString(2).length;
}

const BITS = 192;

function upward(numerator, denominator) {
  return -(-numerator / denominator) + (numerator > 0n && numerator % denominator !== 0n ? 1n : 0n);
}

// At least log(1 + x) for x of at least 0. With 1 + x = 2^k (1 + y), 0 <= y < 1, the logarithm is
// k log 2 + log(1 + y), and log(1 + y) = 2 (u + u^3 / 3 + u^5 / 5 + ...) with u = y / (2 + y) <= 1/3.
function log1pUp(x) {
  if (x.isAtMost(ZERO)) return ZERO;
  const one = ONE.plus(x);
  let k = Math.max(bitLength(one.numerator) - bitLength(one.denominator), 0);
  if (one.against(new Fraction(1n << BigInt(k))) < 0) k -= 1;
  const y = one.over(new Fraction(1n << BigInt(k))).minus(ONE);
  return twiceArtanhUp(y.over(TWO.plus(y))).plus(whole(k).times(LOG2_UP));
}

function twiceArtanhUp(u) {
  if (u.numerator === 0n) return ZERO;
  const shift = BigInt(BITS + bitLength(u.denominator) - bitLength(u.numerator));
  const unit = 1n << shift;
  const first = upward(u.numerator * unit, u.denominator);
  const square = upward(first * first, unit);
  let [power, term, total, j] = [first, first, first, 1n];
  while (term > 1n) {
    power = upward(power * square, unit);
    j += 2n;
    term = upward(power, j);
    total += term;
  }
  // What was left out is less than an eighth of the last term.
  return new Fraction(2n * (total + 1n), unit);
}

const LOG2_UP = twiceArtanhUp(new Fraction(1n, 3n));

function wholeRoot(n) {
  if (n < 2n) return n;
  let x = 1n << BigInt((bitLength(n) + 1) >> 1);
  for (;;) {
    const next = (x + n / x) >> 1n;
    if (next >= x) return x;
    x = next;
  }
}

function roots(x) {
  const shift = BigInt(BITS + Math.max(bitLength(x.denominator) - bitLength(x.numerator), 0));
  return [wholeRoot((x.numerator << (2n * shift)) / x.denominator), 1n << shift];
}

function rootUp(x) {
  const [root, unit] = roots(x);
  return new Fraction(root + 1n, unit);
}

function rootDown(x) {
  const [root, unit] = roots(x);
  return new Fraction(root, unit);
}
