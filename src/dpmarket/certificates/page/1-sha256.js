// SHA-256 (FIPS 180-4), written out because browsers offer theirs to pages from the network only.

const ROUND_CONSTANTS = (() => {
  // The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
  const primes = [];
  for (let n = 2; primes.length < 64; n++) {
    if (primes.every((p) => n % p !== 0)) primes.push(n);
  }
  return primes.map((p) => fractionBits(BigInt(p), 3n));
})();

const INITIAL_HASH = [2n, 3n, 5n, 7n, 11n, 13n, 17n, 19n].map((p) => fractionBits(p, 2n));

// The first 32 bits after the point of the k-th root of n: floor(root(n * 2^(32 k))) without its whole part.
function fractionBits(n, k) {
  const target = n << (32n * k);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** k <= target) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

function sha256(bytes) {
  const length = bytes.length;
  const padded = new Uint8Array(((length + 8) >> 6 << 6) + 64);
  padded.set(bytes);
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(length / 0x20000000));
  view.setUint32(padded.length - 4, (length << 3) >>> 0);
  const hash = Uint32Array.from(INITIAL_HASH);
  const words = new Uint32Array(64);
  for (let start = 0; start < padded.length; start += 64) {
    for (let t = 0; t < 16; t++) words[t] = view.getUint32(start + 4 * t);
    for (let t = 16; t < 64; t++) {
      const x = words[t - 15];
      const y = words[t - 2];
      const small0 = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
      const small1 = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
      words[t] = words[t - 16] + small0 + words[t - 7] + small1;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let t = 0; t < 64; t++) {
      const big1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const first = (h + big1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[t] + words[t]) >>> 0;
      const big0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) >>> 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) >>> 0, c, b, a, (first + second) >>> 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, k) => { hash[k] += value; });
  }
  const result = new DataView(new ArrayBuffer(32));
  hash.forEach((value, k) => result.setUint32(4 * k, value));
  return new Uint8Array(result.buffer);
}

function turned(x, by) {
  return (x >>> by) | (x << (32 - by));
}

function hexadecimal(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

const inUtf8 = (text) => new TextEncoder().encode(text);
