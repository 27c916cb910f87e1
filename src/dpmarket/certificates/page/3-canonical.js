// Canonical JSON by RFC 8785: every value has exactly one text, so that every changed byte is seen.

class Broken extends Error {}

const HOLDS = "holds";
const FAILS = "FAILS";
const SKIPPED = "skipped";
const MOST_BODY = 8 << 20;
const MOST_RECEIPT = 1 << 20;
const MOST_CONTAINERS = 100000;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const judged = (name, good, yes, no) => ({ name, verdict: good ? HOLDS : FAILS, detail: good ? yes : no });
const skipped = (name, detail) => ({ name, verdict: SKIPPED, detail });

function parsed(bytes, what, most) {
  const [value, text] = loaded(bytes, what, most);
  let same;
  try {
    same = written(value) === text;
  } catch (problem) {
    same = false; // half of a pair, or too deep
  }
  if (!same) throw new Broken(`${what} is not written in the one canonical way`);
  return value;
}

function loaded(bytes, what, most) {
  if (bytes.length > most || containersIn(bytes) > MOST_CONTAINERS) {
    throw new Broken(`${what} is larger than any of its kind`);
  }
  let value;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (problem) {
    throw new Broken(`${what} is not JSON in UTF-8`);
  }
  if (!isObject(value)) throw new Broken(`${what} is not a JSON object`);
  return [value, text];
}

// How many lists and objects open; brackets in texts open none.
function containersIn(bytes) {
  let [count, inText] = [0, false];
  for (let k = 0; k < bytes.length; k++) {
    if (bytes[k] === 0x22) inText = !inText;
    else if (inText && bytes[k] === 0x5c) k++;
    else if (!inText && (bytes[k] === 0x5b || bytes[k] === 0x7b)) count++;
  }
  return count;
}

function written(value) {
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (isObject(value)) {
    return `{${Object.keys(value).sort().map((name) => `${written(name)}:${written(value[name])}`).join(",")}}`;
  }
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) throw new Broken("half of a pair");
  return JSON.stringify(value);
}

function onlyLine(bytes) {
  if (bytes[bytes.length - 1] !== 10) throw new Broken("expected a file that ends with its only line");
  return bytes.subarray(0, bytes.length - 1);
}

const isHash = (digits) => typeof digits === "string" && /^[0-9a-f]{64}$/.test(digits) && digits.length === 64;

function hashOf(digits) {
  if (!isHash(digits)) throw new Broken("expected 64 hexadecimal digits for every salt and every hash");
  return Uint8Array.from({ length: 32 }, (_, k) => parseInt(digits.slice(2 * k, 2 * k + 2), 16));
}

// A text in quotation marks, in which nothing is unseen, or turns round what comes after it.
function seen(text) {
  return JSON.stringify(text).replace(/(?! )[\p{C}\p{Z}]/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}
