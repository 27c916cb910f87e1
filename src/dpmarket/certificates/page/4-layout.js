// The parts of certificates and receipts: exactly these, each of exactly its kind.

const CONSTANTS = {
  classes: "list", clip: "bool", fit_intercept: "bool", gradient_bound: "float", intercept_scaling: "float",
  l2: "float", noise_accuracy: "float", numerical_epsilon: "float", row_bound: "float", rows_per_person: "int",
  weight_total: "float",
};
const GRID = { coef_grid: "list", grid: "float", stretch: "float" };
const MONEY = { currency: "str", minor_units: "int|null" };
const BODY = {
  commitment: "dict|null", market: "dict", mechanism: "str", menu: "dict|null", money: MONEY, not_promised: "list",
  release: "dict", root: "str", schema: "str", versions: "dict",
  totals: {
    bought_from: "int", sellers: "int", total_payment: "float", total_promise: "float", total_spent: "float",
    withdrawn: "int",
  },
};
const [BINARY, SHAPED, SOFTMAX] = ["binary model", "shaped binary model", "softmax model"];
const [GAUSSIAN, GAUSSIAN_SOFTMAX] = ["gaussian binary model", "gaussian softmax model"];
const GAUSSIAN_ENCODED = "gaussian encoded model";
const STATISTIC = "statistic";
const hasManyClasses = ({ kind }) => kind === SOFTMAX || kind === GAUSSIAN_SOFTMAX;
const isGaussian = ({ kind }) => [GAUSSIAN, GAUSSIAN_SOFTMAX, GAUSSIAN_ENCODED].includes(kind);
const BINARY_PARTS = {
  ...CONSTANTS, ...GRID, delta: "float", features: { high: "list", low: "list", name: "list" }, kind: "str",
  noise_rate: "float",
};
// A softmax model's coef_grid has a list for every class.
const RELEASES = {
  [BINARY]: BINARY_PARTS,
  [SHAPED]: { ...BINARY_PARTS, encoder: "dict|null", euclidean_bound: "float", joint_columns: "int" },
  [SOFTMAX]: BINARY_PARTS,
  [GAUSSIAN]: BINARY_PARTS, // whose delta is above 0
  [GAUSSIAN_SOFTMAX]: BINARY_PARTS,
  // Whose rows were encoded for a norm with so many joint columns; row_bound is Euclidean.
  [GAUSSIAN_ENCODED]: { ...BINARY_PARTS, encoder: "dict", joint_columns: "int" },
  [STATISTIC]: { delta: "float", kind: "str", rows_per_person: "int", statistics: "list", weight_total: "float" },
};
const MENU = { cost: "list", epsilon: "list", payment: "list" };
const COMMITMENT = { committed_at: "str", digest: "str", quoted_at: "str" };
const LINE = {
  id: "str|int", promise: "float", payment: "float", spent: "float", weight: "float", quotes: "int", withdrew: "bool",
};
const RECEIPT = {
  certificate: "str", line: LINE, money: MONEY, not_promised: "list", path: "list", position: "int", salt: "str",
  schema: "str",
};

function refuseOtherParts(found, shape, what) {
  const names = Object.keys(shape);
  if (found.kind !== "dict" || found.value.size !== names.length || !names.every((name) => found.value.has(name))) {
    throw new Broken(`${what} does not have the parts that this program knows`);
  }
  for (const name of names) {
    const part = found.value.get(name);
    if (typeof shape[name] !== "string") refuseOtherParts(part, shape[name], `'${name}' in ${what}`);
    else if (!shape[name].split("|").includes(part.kind)) {
      throw new Broken(`'${name}' in ${what} is not of the type that it must have`);
    }
  }
}

function refuseOtherSchema(found, schema, what) {
  const told = found.value.get("schema");
  if (told === undefined || told.kind !== "str" || told.value !== schema) {
    throw new Broken(`${what} is not of the schema ${schema}, the only one that this program reads`);
  }
}

// A dict of plain parts as an object, without going deeper.
const opened = (found) => Object.fromEntries([...found.value].map(([name, part]) => [name, part.value]));

// The kind of a release that other programs may know and this page does not, or null.
function strangeKind(found) {
  const schema = found.value.get("schema");
  if (schema === undefined || !/^dpmarket\.certificate\/[2-9]$/.test(schema.value)) return null;
  const release = found.value.get("release");
  const kind = release !== undefined && release.kind === "dict" ? release.value.get("kind") : undefined;
  return kind === undefined || kind.kind !== "str" || Object.hasOwn(RELEASES, kind.value) ? null : kind.value;
}

function bodyOf(found) {
  refuseOtherSchema(found, "dpmarket.certificate/2", "the certificate");
  refuseOtherParts(found, BODY, "the certificate");
  const part = (name) => found.value.get(name);
  const kind = part("release").value.get("kind");
  if (kind === undefined || kind.kind !== "str" || !Object.hasOwn(RELEASES, kind.value)) {
    throw new Broken("the certificate is about a kind of release that this program does not know");
  }
  refuseOtherParts(part("release"), RELEASES[kind.value], "'release' in the certificate");
  for (const [name, shape] of [["menu", MENU], ["commitment", COMMITMENT]]) {
    if (part(name).kind !== "null") refuseOtherParts(part(name), shape, `'${name}' in the certificate`);
  }
  const told = opened(part("totals"));
  return {
    mechanism: part("mechanism").value,
    market: part("market").value,
    money: opened(part("money")),
    minorUnits: part("money").value.get("minor_units").value,
    currency: part("money").value.get("currency").value,
    root: part("root").value,
    notPromised: part("not_promised").value,
    release: kind.value === STATISTIC ? statisticRelease(part("release")) : modelOf(part("release")),
    totals: {
      sellers: told.sellers,
      boughtFrom: told.bought_from,
      withdrawn: told.withdrawn,
      promise: told.total_promise,
      payment: told.total_payment,
      spent: told.total_spent,
    },
    menu: part("menu").kind === "null" ? null : opened(part("menu")),
    commitment: part("commitment").kind === "null" ? null : opened(part("commitment")),
  };
}

function modelOf(found) {
  const release = opened(found);
  return {
    ...release, features: opened(found.value.get("features")), n_coefficients: BigInt(columnsOf(release).length),
  };
}

// The coefficients of a release, of its first class if there are many.
function columnsOf({ kind, coef_grid: cells }) {
  if (!hasManyClasses({ kind })) return cells;
  if (!cells.length || cells[0].kind !== "list") {
    throw new Broken("'coef_grid' in 'release' in the certificate is not of the type that it must have");
  }
  return cells[0].value;
}

function receiptOf(found) {
  refuseOtherSchema(found, "dpmarket.receipt/2", "the receipt");
  refuseOtherParts(found, RECEIPT, "the receipt");
  return { ...opened(found), line: opened(found.value.get("line")), money: opened(found.value.get("money")) };
}
