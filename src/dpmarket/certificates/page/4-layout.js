// The parts of certificates and receipts, in the notation of the program's verifier: [x] is a list of x, x? may be
// null, x|y is either. An object with other parts than these is refused.

const NOTATION = `
certificate: limits [text], market market, money money, release object, root text, rules rules?, schema text,
  totals totals, versions object
market: budget number?, delta number, epsilon_cost identity|table, groups [group], mechanism text,
  objective object?, prices [part], split split?
identity: shape text, shares null
table: costs [number], epsilons [number], shape text, shares [number]
group: name text, share number, virtual_cost psi?
psi: knots [number], values [number]
part: payment_weight number?, schedules [schedule]
schedule: amounts [number], costs [number], epsilons [number]
split: histograms text?, nonce text?, parts number, reports text?, salt text
money: currency text, minor_units number
rules: quoted_at text?, text text
totals: bought_from number, sellers number, total_epsilon number, total_payment number, total_used number,
  withdrawn number
norm: cells [[text]], family text, grid number, gradient_bound number, model model, noise_accuracy number,
  noise_rate number, numerical_epsilon number, terms terms, weight_total number
terms: constants constants, l2 number, loss sigmoid|softmax, norm noise, private text, rows_per_person number,
  schema text
constants: bounds [[[number]]], coefficients number, curvature_1 number, joint number, largest_sum number,
  ones number, outputs number, rank number, reach number, relative_third number, row_bound number,
  row_bound_2 number, third number
sigmoid: kind text, labels [number], scale number, shift [number], slope number, target [number]
softmax: classes number, kind text
noise: constant number?, euclidean_bound number, separate [truth]
model: classes [text|number|truth]?, encoder object?, factor number, features features
features: high [number], low [number], name [text]
descent: coefficients [[number]], family text, loss sigmoid|softmax, model model, terms steps,
  weight_total number
steps: cells number, delta number, noise_scale number, schema text, steps number
statistics: family text, rows_per_person number, statistics object, weight_total number
statistic: columns [text], noise_scale number, numerators [text], question object, share number,
  total_weight text, unit_exponent number
receipt: certificate text, index number, line line, path [text], salt text, schema text
line: epsilon number, group number, id text, part number, payment number, rules text?, used number,
  weight number, withdrew truth
`;
const SHAPES = Object.fromEntries(NOTATION.replaceAll("\n  ", " ").trim().split("\n").map((line) => {
  const [name, parts] = line.split(":");
  return [name, Object.fromEntries(parts.split(",").map((part) => part.trim().split(" ")))];
}));
const TYPES = { number: "number", text: "string", truth: "boolean" };

function fits(value, kind) {
  if (kind.endsWith("?")) return value === null || fits(value, kind.slice(0, -1));
  if (kind.startsWith("[")) return Array.isArray(value) && value.every((one) => fits(one, kind.slice(1, -1)));
  if (kind.includes("|")) return kind.split("|").some((one) => fits(value, one));
  if (kind === "null") return value === null;
  if (kind === "object") return isObject(value);
  if (Object.hasOwn(TYPES, kind)) return typeof value === TYPES[kind];
  const names = Object.keys(SHAPES[kind]);
  return isObject(value) && Object.keys(value).length === names.length
    && names.every((name) => Object.hasOwn(value, name) && fits(value[name], SHAPES[kind][name]));
}

function refuseOtherParts(value, kind, what) {
  if (fits(value, kind)) return;
  const shape = SHAPES[kind.replace("?", "")];
  if (isObject(value) && shape !== undefined) {
    for (const [name, inner] of Object.entries(shape)) {
      if (Object.hasOwn(value, name)) refuseOtherParts(value[name], inner, `'${name}' in ${what}`);
    }
  }
  throw new Broken(`${what} does not have the parts, of the types, that this page knows`);
}

function refuseOther(value, kind) {
  const schema = `dpmarket.${kind}/3`;
  if (value.schema !== schema) throw new Broken(`the ${kind} is not of the schema ${schema}, the only one that is read here`);
  refuseOtherParts(value, kind, `the ${kind}`);
  if (kind !== "certificate") return;
  const { family } = value.release;
  if (!["norm", "descent", "statistics"].includes(family)) {
    throw new Broken("the certificate is about a family of releases that this page does not know");
  }
  refuseOtherParts(value.release, family, "the certificate's release");
}

const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
const isWholeText = (text, digits = 100) => text.length <= digits && /^(0|-?[1-9][0-9]*)$/.test(text) && !text.endsWith("\n");
const namesOf = (tests) => Object.entries(tests).filter(([, good]) => !good).map(([name]) => name);
