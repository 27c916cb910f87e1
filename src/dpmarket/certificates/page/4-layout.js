// The parts of certificates and receipts. A shape is a type's name, a list with the shape of its elements, an object
// with the shapes of its parts, or Either of several. An object with other parts than these is refused.

class Either {
  constructor(...shapes) { this.shapes = shapes; }
}

const N = "number";
const T = "string";
const alike = (shape, ...names) => Object.fromEntries(names.map((name) => [name, shape]));
const orNone = (shape) => new Either(shape, null);

const MARKET = {
  budget: orNone(N),
  delta: N,
  epsilon_cost: new Either({ shape: T, shares: null }, { costs: [N], epsilons: [N], shape: T, shares: [N] }),
  groups: [{ name: T, share: N, virtual_cost: orNone({ knots: [N], values: [N] }) }],
  mechanism: T,
  objective: orNone("object"),
  prices: [{ payment_weight: orNone(N), schedules: [{ amounts: [N], costs: [N], epsilons: [N] }] }],
  split: orNone({ ...alike(orNone(T), "histograms", "nonce", "reports"), parts: N, salt: T }),
};
const LOSS = new Either(
  { kind: T, labels: [N], scale: N, shift: [N], slope: N, target: [N] },
  { classes: N, kind: T },
);
const MODEL = {
  classes: orNone([new Either(T, N, "boolean")]),
  encoder: orNone("object"),
  factor: N,
  features: { high: [N], low: [N], name: [T] },
};
const RELEASES = {
  norm: {
    cells: [[T]],
    family: T,
    model: MODEL,
    terms: {
      constants: {
        bounds: [[[N]]],
        ...alike(
          N, "coefficients", "curvature_1", "joint", "largest_sum", "ones", "outputs", "rank", "reach",
          "relative_third", "row_bound", "row_bound_2", "third",
        ),
      },
      l2: N,
      loss: LOSS,
      norm: { constant: orNone(N), euclidean_bound: N, separate: ["boolean"] },
      private: T,
      rows_per_person: N,
      schema: T,
    },
    ...alike(N, "grid", "gradient_bound", "noise_accuracy", "noise_rate", "numerical_epsilon", "weight_total"),
  },
  descent: {
    coefficients: [[N]],
    family: T,
    loss: LOSS,
    model: MODEL,
    terms: { schema: T, ...alike(N, "cells", "delta", "noise_scale", "steps") },
    weight_total: N,
  },
  statistics: { family: T, rows_per_person: N, statistics: "object", weight_total: N },
};
const STATISTIC = {
  columns: [T], noise_scale: N, numerators: [T], question: "object", share: N, total_weight: T, unit_exponent: N,
};
const BODY = {
  limits: [T],
  market: MARKET,
  money: { currency: T, minor_units: N },
  release: "object",
  root: T,
  rules: orNone({ quoted_at: orNone(T), text: T }),
  schema: T,
  totals: alike(N, "bought_from", "sellers", "total_epsilon", "total_payment", "total_used", "withdrawn"),
  versions: "object",
};
const RECEIPT = {
  certificate: T,
  index: N,
  line: {
    ...alike(N, "epsilon", "group", "part", "payment", "used", "weight"), id: T, rules: orNone(T), withdrew: "boolean",
  },
  path: [T],
  salt: T,
  schema: T,
};

function fits(value, shape) {
  if (shape instanceof Either) return shape.shapes.some((one) => fits(value, one));
  if (shape === null) return value === null;
  if (shape === "object") return isObject(value);
  if (typeof shape === "string") return typeof value === shape;
  if (Array.isArray(shape)) return Array.isArray(value) && value.every((one) => fits(one, shape[0]));
  const names = Object.keys(shape);
  return isObject(value) && Object.keys(value).length === names.length
    && names.every((name) => Object.hasOwn(value, name) && fits(value[name], shape[name]));
}

function refuseOtherParts(value, shape, what) {
  if (fits(value, shape)) return;
  if (isObject(value) && isObject(shape) && !(shape instanceof Either)) {
    for (const [name, inner] of Object.entries(shape)) {
      if (Object.hasOwn(value, name)) refuseOtherParts(value[name], inner, `'${name}' in ${what}`);
    }
  }
  throw new Broken(`${what} does not have the parts, of the types, that this page knows`);
}

function refuseOtherSchema(value, schema, what) {
  if (value.schema !== schema) throw new Broken(`${what} is not of the schema ${schema}, the only one that is read here`);
}

const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
const isWholeText = (text, digits = 100) => text.length <= digits && /^(0|-?[1-9][0-9]*)$/.test(text) && !text.endsWith("\n");
const namesOf = (tests) => Object.entries(tests).filter(([, good]) => !good).map(([name]) => name);
