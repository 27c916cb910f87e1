// Bytes to plain data: canonical JSON (RFC 8785), so that every changed byte is seen, in the parts of the notation.

class Broken extends Error {}

// The parts of certificates, the sentences of checks, and limits: the program's own table.
const [PARTS, CHECKS, LIMITS] = @TABLES@.trimEnd().split("\n\n")
  .map((table) => table.replaceAll("\n  ", " ").split("\n").filter((line) => !line.startsWith("#")));
const splitAt = (text, sign) => [text.slice(0, text.indexOf(sign)), text.slice(text.indexOf(sign) + sign.length)];
const SENTENCES = Object.fromEntries(CHECKS.map((line) => splitAt(line, ": ")).map(([name, rest]) => [name, rest.split(" | ")]));
const HOLDS = "holds";
const FAILS = "FAILS";
const SKIPPED = "skipped";
const MOST_BODY = 8 << 20;
const MOST_RECEIPT = 1 << 20;
const MOST_KNOTS = 5000;
const LARGEST = 1e15;
const DEEPEST = 100;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const within = (value, low, high) => value >= low && value <= high;
const skipped = (name, of = "") => ({ name: of + name, verdict: SKIPPED, detail: SENTENCES[name][2] });
const namesOf = (tests) => Object.entries(tests).filter(([, good]) => !good).map(([name]) => name);

function judged(name, good, detail = "", of = "") {
  const [yes, no] = SENTENCES[name];
  return { name: of + name, verdict: good ? HOLDS : FAILS, detail: (good ? yes : no).replace("{}", () => detail) };
}

function parsed(bytes, kind, most) {
  const [value, text] = loaded(bytes, kind, most);
  if (!isCanonical(value, text)) throw new Broken(`the ${kind} is not written in the one canonical way`);
  const place = misfit(value, kind);
  if (place !== null) {
    const where = place ? `at ${seen(place.slice(1))} ` : "";
    throw new Broken(`the ${kind} does not have ${where}the parts, of the types, that this page knows`);
  }
  return value;
}

function isCanonical(value, text) {
  try {
    return written(value) === text;
  } catch (problem) {
    return false; // half of a pair, or too deep
  }
}

function loaded(bytes, kind, most) {
  if (bytes.length > most) throw new Broken(`the ${kind} is larger than any of its kind`);
  let value;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (problem) {
    throw new Broken(`the ${kind} is not JSON in UTF-8`);
  }
  if (!isObject(value)) throw new Broken(`the ${kind} is not a JSON object`);
  return [value, text];
}

function written(value, room = DEEPEST) {
  if (room === 0) throw new Broken("too deep");
  const inside = (one) => written(one, room - 1);
  if (Array.isArray(value)) return `[${value.map(inside).join(",")}]`;
  if (isObject(value)) {
    return `{${Object.keys(value).sort().map((name) => `${written(name)}:${inside(value[name])}`).join(",")}}`;
  }
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) throw new Broken("half of a pair");
  return JSON.stringify(value);
}

function onlyLine(bytes) {
  if (bytes[bytes.length - 1] !== 10) throw new Broken("expected a file that ends with its only line");
  return bytes.subarray(0, bytes.length - 1);
}

const bytesOfHash = (digits) => Uint8Array.from({ length: 32 }, (_, k) => parseInt(digits.slice(2 * k, 2 * k + 2), 16));

// A text in quotation marks, in which nothing is unseen, or turns round what comes after it.
function seen(text) {
  return JSON.stringify(text).replace(/(?! )[\p{C}\p{Z}]/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

// --- the notation: see the program's table for what its types mean ---

const SHAPES = Object.fromEntries(PARTS.map((line) => splitAt(line, ":")).map(([shape, parts]) => {
  const pairs = parts.split(",").map((part) => part.trim().split(" "));
  return [shape, Object.fromEntries(pairs.map(([part, kind]) => [part.replace("?", ""), [part, kind]]))];
}));

// Returns the innermost place at which a value is not of a kind; null if it fits.
function misfit(value, kind) {
  if (kind.endsWith("?")) return value === null ? null : misfit(value, kind.slice(0, -1));
  if ("[{<".includes(kind[0])) {
    if (kind[0] === "<" ? !isObject(value) : !Array.isArray(value)) return "";
    const inner = kind.slice(1, -1);
    for (const [name, one] of Object.entries(value)) {
      const place = misfit(one, inner);
      if (place !== null) return `.${name}${place}`;
    }
    return kind[0] === "{" && new Set(value.map((one) => written(one))).size < value.length ? "" : null;
  }
  if (kind.includes("|")) {
    const places = kind.split("|").map((one) => misfit(value, one));
    return places.includes(null) ? null : places.reduce((a, b) => (b.length > a.length ? b : a));
  }
  if (!Object.hasOwn(SHAPES, kind)) return testOf(kind)(value) ? null : "";
  const shape = SHAPES[kind];
  if (!isObject(value) || !Object.keys(value).every((name) => Object.hasOwn(shape, name))) return "";
  for (const [name, [spelled, inner]] of Object.entries(shape)) {
    const absent = spelled === name ? "" : null;
    const place = Object.hasOwn(value, name) ? misfit(value[name], inner) : absent;
    if (place !== null) return `.${name}${place}`;
  }
  return null;
}

const rises = (value) => Array.isArray(value) && value.length >= 2
  && value.every((one, k) => typeof one === "number" && (k === 0 || value[k - 1] < one));
const TESTS = new Map(Object.entries({
  number: (value) => typeof value === "number",
  positive: (value) => typeof value === "number" && within(value, 1e-300, 1e100),
  portion: (value) => typeof value === "number" && value > 0 && value < 1,
  text: (value) => typeof value === "string",
  truth: (value) => typeof value === "boolean",
  null: (value) => value === null,
  hash: (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value),
  whole: (value) => typeof value === "string" && /^(0|-?[1-9][0-9]{0,98})$/.test(value),
  pair: (value) => Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === "number"),
  rising: rises,
  knots: (value) => rises(value) && value[0] >= 0 && value[value.length - 1] <= LARGEST && value.length <= MOST_KNOTS,
}));

function testOf(kind) {
  if (!TESTS.has(kind)) TESTS.set(kind, made(kind));
  return TESTS.get(kind);
}

function made(kind) {
  if (kind[0] === "'") return (value) => value === kind.slice(1, -1).replaceAll("_", " ");
  const isPower = kind.startsWith("2^");
  const [low, high] = kind.split(kind.includes("..") ? ".." : ":").map((end) => (isPower ? 2 ** Number(end.slice(2)) : Number(end)));
  const among = (value) => typeof value === "number" && within(value, low, high);
  if (isPower) return (value) => among(value) && isPowerOfTwo(value);
  return kind.includes("..") ? among : (value) => among(value) && Number.isInteger(value);
}

function isPowerOfTwo(value) {
  const { numerator, denominator } = Fraction.of(value);
  return numerator > 0n && (numerator & (numerator - 1n)) === 0n && (numerator === 1n || denominator === 1n);
}
