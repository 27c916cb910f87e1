// JSON of which every value has exactly one text, so that every changed byte is seen. Whole numbers stay apart from
// floats (1 is not 1.0), which JavaScript's own parser would mix up.

class Broken extends Error {}

const MOST_BODY = 8 << 20;
const MOST_RECEIPT = 1 << 20;
const MOST_DEPTH = 24;
const MOST_CONTAINERS = 10000;
const MOST_DIGITS = 40;

// Values: {kind: "int", value: BigInt}, {kind: "float", value: Number}, "str", "bool", "null", "list" (array)
// and "dict" (Map).
function parsed(bytes, what, most) {
  if (bytes.length > most || containersIn(bytes) > MOST_CONTAINERS) throw new Broken(`${what} is larger than any of its kind`);
  let value;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = new Parser(text).whole();
  } catch (problem) {
    throw new Broken(`${what} is not JSON in UTF-8`);
  }
  if (value.kind !== "dict" || isDeeperThan(value, MOST_DEPTH)) {
    throw new Broken(`${what} is not an object of few levels`);
  }
  if (written(value) !== text) throw new Broken(`${what} is not written in the one canonical way`);
  return value;
}

// How many lists and objects open; what stands in texts opens none.
function containersIn(bytes) {
  let [count, inText] = [0, false];
  for (let k = 0; k < bytes.length; k++) {
    if (bytes[k] === 0x22) inText = !inText;
    else if (inText && bytes[k] === 0x5c) k++;
    else if (!inText && (bytes[k] === 0x5b || bytes[k] === 0x7b)) count++;
  }
  return count;
}

class Parser {
  constructor(text) {
    this.text = text;
    this.place = 0;
  }

  whole() {
    this.blanks();
    const value = this.value(0);
    this.blanks();
    if (this.place !== this.text.length) throw new SyntaxError();
    return value;
  }

  blanks() {
    while (" \t\n\r".includes(this.text[this.place]) && this.place < this.text.length) this.place++;
  }

  value(depth) {
    if (depth > 500) throw new SyntaxError();
    const rest = this.text[this.place];
    if (rest === "{") return this.dict(depth);
    if (rest === "[") return this.list(depth);
    if (rest === '"') return { kind: "str", value: this.string() };
    for (const [word, kind, value] of [["true", "bool", true], ["false", "bool", false], ["null", "null", null]]) {
      if (this.text.startsWith(word, this.place)) {
        this.place += word.length;
        return { kind, value };
      }
    }
    return this.number();
  }

  dict(depth) {
    const value = new Map();
    this.place++;
    this.blanks();
    if (this.text[this.place] === "}") {
      this.place++;
      return { kind: "dict", value };
    }
    for (;;) {
      this.blanks();
      if (this.text[this.place] !== '"') throw new SyntaxError();
      const name = this.string();
      this.blanks();
      if (this.text[this.place++] !== ":") throw new SyntaxError();
      this.blanks();
      value.set(name, this.value(depth + 1));
      this.blanks();
      const after = this.text[this.place++];
      if (after === "}") return { kind: "dict", value };
      if (after !== ",") throw new SyntaxError();
    }
  }

  list(depth) {
    const value = [];
    this.place++;
    this.blanks();
    if (this.text[this.place] === "]") {
      this.place++;
      return { kind: "list", value };
    }
    for (;;) {
      this.blanks();
      value.push(this.value(depth + 1));
      this.blanks();
      const after = this.text[this.place++];
      if (after === "]") return { kind: "list", value };
      if (after !== ",") throw new SyntaxError();
    }
  }

  string() {
    let found = "";
    this.place++;
    for (;;) {
      const letter = this.text[this.place++];
      if (letter === undefined || letter < " ") throw new SyntaxError();
      if (letter === '"') {
        if (/[\ud800-\udfff]/u.test(found)) throw new SyntaxError(); // half of a pair
        return found;
      }
      if (letter !== "\\") {
        found += letter;
        continue;
      }
      const escaped = this.text[this.place++];
      const plain = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }[escaped];
      if (plain !== undefined) {
        found += plain;
        continue;
      }
      const digits = this.text.slice(this.place, this.place + 4);
      if (escaped !== "u" || !/^[0-9a-fA-F]{4}$/.test(digits)) throw new SyntaxError();
      found += String.fromCharCode(parseInt(digits, 16));
      this.place += 4;
    }
  }

  number() {
    const pattern = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
    pattern.lastIndex = this.place;
    const found = pattern.exec(this.text);
    if (!found) throw new SyntaxError();
    this.place = pattern.lastIndex;
    if (found[1] === undefined && found[2] === undefined) {
      if (found[0].length > MOST_DIGITS) throw new SyntaxError();
      return { kind: "int", value: BigInt(found[0]) };
    }
    const value = Number(found[0]);
    if (!Number.isFinite(value)) throw new SyntaxError();
    return { kind: "float", value };
  }
}

function isDeeperThan(value, levels) {
  let level = [value];
  for (let k = 0; k < levels; k++) {
    level = level.flatMap((part) => [...part.value.values()].filter(({ kind }) => kind === "dict" || kind === "list"));
    if (!level.length) return false;
  }
  return true;
}

function written({ kind, value }) {
  if (kind === "dict") {
    const names = [...value.keys()].sort(byCodePoints);
    return `{${names.map((name) => `${quoted(name)}:${written(value.get(name))}`).join(",")}}`;
  }
  if (kind === "list") return `[${value.map(written).join(",")}]`;
  if (kind === "str") return quoted(value);
  if (kind === "float") return floatText(value);
  return String(value);
}

function byCodePoints(a, b) {
  if (a === b) return 0;
  let k = 0;
  while (k < a.length && k < b.length && a.charCodeAt(k) === b.charCodeAt(k)) k++;
  if (k === a.length || k === b.length) return a.length - b.length;
  const [first, second] = [a.charCodeAt(k), b.charCodeAt(k)];
  // Halves of pairs stand for code points above all others, but are no larger than U+DFFF.
  const isHalf = (unit) => unit >= 0xd800 && unit <= 0xdfff;
  if (isHalf(first) !== isHalf(second)) return isHalf(first) ? 1 : -1;
  return first - second;
}

function quoted(text) {
  const short = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b" };
  const escaped = text.replace(/["\\\u0000-\u001f]/g, (letter) => (
    short[letter] ?? `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`
  ));
  return `"${escaped}"`;
}

// A float's shortest digits, with a point or an exponent always, and exponents of two digits at the least.
function floatText(number) {
  if (Object.is(number, -0)) return "-0.0";
  const [mantissa, power] = Math.abs(number).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  const sign = number < 0 ? "-" : "";
  if (number === 0) return "0.0";
  if (exponent < -4 || exponent >= 16) {
    const tail = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${tail}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const before = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${before}.${digits.slice(exponent + 1) || "0"}`;
}
