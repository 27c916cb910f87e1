// A market's public tables, and what an epsilon is paid by them: by a schedule, or between the first knot's and the
// reserve price's cost where all reports decided together.

const LARGEST = 1e15;
const MECHANISMS = { online: 1, "posted price": 1, "cross-priced": 16, offline: 0 };
const MOST_KNOTS = 5000;
const CLOSE = new Fraction(1n, 10n ** 9n);
const UNIT_PART = new Fraction(2n, 10n ** 6n);
const POWERS = { linear: 1, quadratic: 2 };
const OBJECTIVES = {
  "squared error": ["sampling_error", "noise_error", "payment_weight"],
  paper: ["mu", "sigma", "gamma"],
};
const isTable = (numbers, size) => numbers.length === size && numbers.every((number) => within(number, 0, LARGEST));
const rises = (numbers) => within(numbers.length, 2, MOST_KNOTS) && numbers.every((x, k) => k === 0 || numbers[k - 1] < x);
const neverFalls = (numbers) => numbers.every((x, k) => k === 0 || numbers[k - 1] <= x);
const between = (low, high, share) => low.plus(share.times(high.minus(low)));

function interpolated(x, knots, values) {
  if (x <= knots[0]) return Fraction.of(values[0]);
  if (x >= knots[knots.length - 1]) return Fraction.of(values[values.length - 1]);
  const k = knots.findIndex((knot) => knot > x);
  const [low, high, before, after] = [knots[k - 1], knots[k], values[k - 1], values[k]].map(Fraction.of);
  return between(before, after, Fraction.of(x).minus(low).over(high.minus(low)));
}

class Schedule {
  constructor({ costs, epsilons, amounts }) {
    [this.costs, this.epsilons, this.amounts] = [costs, epsilons, amounts];
  }

  // What an epsilon is paid, before rounding; null if the schedule does not offer it.
  payment(epsilon) {
    const [first, last] = [this.epsilons[0], this.epsilons[this.epsilons.length - 1]].map(Fraction.of);
    let e = Fraction.of(epsilon);
    if (!e.isAtMost(first.times(ONE.plus(CLOSE))) || !last.times(ONE.minus(CLOSE)).isAtMost(e)) return null;
    e = least(e.isAtMost(last) ? last : e, first);
    const number = e.toNumber();
    let k = this.epsilons.findIndex((one) => one < number);
    k = Math.min(Math.max(k < 0 ? this.costs.length : k, 1), this.costs.length - 1);
    const [above, below] = [this.epsilons[k - 1], this.epsilons[k]].map(Fraction.of);
    let share = above.against(below) > 0 ? above.minus(e).over(above.minus(below)) : ZERO;
    share = least(share.numerator < 0n ? ZERO : share, ONE);
    return this.paid(k, share);
  }

  // Epsilon and payment at a cost, and by how much rounding may move epsilon.
  quote(cost) {
    const { costs, epsilons } = this;
    if (cost > costs[costs.length - 1]) return [ZERO, ZERO, ZERO];
    const c = Math.max(cost, costs[0]);
    const next = costs.findIndex((knot) => knot > c);
    const k = Math.min(Math.max(next < 0 ? costs.length : next, 1), costs.length - 1);
    const [low, high, above, below] = [costs[k - 1], costs[k], epsilons[k - 1], epsilons[k]].map(Fraction.of);
    const share = Fraction.of(c).minus(low).over(high.minus(low));
    return [between(above, below, share), this.paid(k, share), above.times(CLOSE)];
  }

  paid(k, share) {
    const [low, high, more, less] = [this.costs[k - 1], this.costs[k], this.amounts[k - 1], this.amounts[k]].map(Fraction.of);
    const [cost, amount] = [between(low, high, share), between(more, less, share)];
    let rent = amount.plus(less).over(TWO).times(high.minus(cost));
    for (let j = k + 1; j < this.costs.length; j++) {
      const [a, b, x, y] = [this.costs[j - 1], this.costs[j], this.amounts[j - 1], this.amounts[j]].map(Fraction.of);
      rent = rent.plus(x.plus(y).over(TWO).times(b.minus(a)));
    }
    return cost.times(amount).plus(rent);
  }
}

class Market {
  constructor({ market, money }) {
    [this.found, this.units, this.table] = [market, whole(money.minor_units), market.epsilon_cost];
    this.power = POWERS[this.table.shape] ?? 1;
    this.prices = market.prices.map(({ schedules }) => schedules.map((one) => new Schedule(one)));
  }

  get maxEpsilon() { return this.table.shares === null ? Infinity : this.table.epsilons[this.table.epsilons.length - 1]; }

  amount(epsilon) {
    return this.table.shares === null ? Fraction.of(epsilon) : interpolated(epsilon, this.table.epsilons, this.table.costs);
  }

  schedule({ part, group }) { return this.prices.length ? this.prices[part][group] : null; }

  knots({ group }) { return this.found.groups[group].virtual_cost.knots; }

  isPlaced({ part, group }) {
    return isWhole(part, 0, Math.max(this.prices.length - 1, 0)) && isWhole(group, 0, this.found.groups.length - 1);
  }

  isPaid(line) {
    const { epsilon, payment } = line;
    if (!Number.isInteger(payment) || !(epsilon <= this.maxEpsilon * (1 + 1e-9))) return false;
    if (epsilon === 0) return payment === 0;
    const [paid, schedule] = [Fraction.of(payment), this.schedule(line)];
    if (schedule !== null) {
      const due = schedule.payment(epsilon);
      return due !== null && this.isRounded(paid, due.times(this.units), due.times(this.units));
    }
    const knots = this.knots(line);
    const sold = this.amount(epsilon).times(this.units);
    return this.isRounded(paid, Fraction.of(knots[0]).times(sold), Fraction.of(knots[knots.length - 1]).times(sold));
  }

  isQuote(line, cost) {
    const schedule = this.schedule(line);
    if (schedule === null) {
      const knots = this.knots(line);
      return cost <= knots[knots.length - 1] || line.epsilon === 0;
    }
    const [epsilon, due, room] = schedule.quote(cost);
    return epsilon.minus(Fraction.of(line.epsilon)).absolute().isAtMost(room)
      && this.isRounded(Fraction.of(line.payment), due.times(this.units), due.times(this.units));
  }

  isWorthIt(line, cost) {
    const epsilon = Fraction.of(line.epsilon);
    const loss = Fraction.of(cost).times(this.power === 2 ? epsilon.times(epsilon) : epsilon).times(this.units);
    return loss.times(ONE.minus(CLOSE)).minus(UNIT_PART).isAtMost(Fraction.of(line.payment));
  }

  isRounded(paid, lowest, highest) {
    const room = UNIT_PART.plus(highest.times(CLOSE));
    return lowest.minus(room).isAtMost(paid) && paid.isAtMost(highest.plus(room).plus(ONE));
  }
}

function isVirtualCost(table, needed) {
  if (table === null) return !needed;
  const { knots, values } = table;
  return isTable(knots, knots.length) && isTable(values, knots.length) && rises(knots) && neverFalls(values);
}

function isObjective(found, needed) {
  if (found === null) return !needed;
  const names = typeof found.kind === "string" && Object.hasOwn(OBJECTIVES, found.kind) ? OBJECTIVES[found.kind] : null;
  const [cap, mean] = [found.weight_cap, found.max_mean_epsilon];
  return names !== null
    && written(Object.keys(found).sort()) === written(["kind", "max_mean_epsilon", "weight_cap", ...names].sort())
    && names.every((name) => fits(found[name], "number") && found[name] > 0 && found[name] <= 1e100)
    && fits([cap, mean], "[number?]")
    && (cap === null || within(cap, 1, LARGEST)) && (mean === null || (mean > 0 && mean <= LARGEST));
}

function isEpsilonCost({ shape, shares, epsilons, costs }) {
  const exponent = Object.hasOwn(POWERS, shape) ? POWERS[shape] : null;
  if (shares === null || exponent === null) return exponent === 1;
  const columns = [shares, epsilons, costs];
  if (!columns.every((x) => isTable(x, shares.length) && rises(x) && x[0] === 0)) return false;
  const isConvex = (values) => {
    const slopes = values.slice(1).map((value, k) => (value - values[k]) / (shares[k + 1] - shares[k]));
    return slopes.every((slope, k) => k === 0 || slopes[k - 1] <= slope * (1 + 1e-6));
  };
  return isConvex(epsilons) && isConvex(costs)
    && epsilons.every((e, k) => within(costs[k], e ** exponent * (1 - 1e-9), e ** exponent * (1 + 1e-3)));
}

function isSchedule({ costs, epsilons, amounts }, market) {
  if (![costs, epsilons, amounts].every((x) => isTable(x, costs.length)) || !rises(costs)) return false;
  return neverFalls([...epsilons].reverse()) && neverFalls([...amounts].reverse())
    && epsilons[0] <= market.maxEpsilon * (1 + 1e-9)
    && epsilons.every((e, k) => {
      const own = market.amount(e);
      return own.minus(Fraction.of(amounts[k])).absolute().isAtMost(CLOSE.times(own));
    });
}

function marketProblems(body, delta) {
  const { market } = body;
  if (!Object.hasOwn(MECHANISMS, market.mechanism)) return ["mechanism"];
  const parts = MECHANISMS[market.mechanism];
  const needed = ["offline", "cross-priced"].includes(market.mechanism);
  const { groups, budget, split, prices } = market;
  const total = groups.reduce((sum, { share }) => sum + share, 0);
  const digests = split === null || ["histograms", "nonce", "sellers"].every((x) => split[x] === null || isHash(split[x]));
  const wrong = namesOf({
    groups: within(groups.length, 1, 1000) && new Set(groups.map(({ name }) => name)).size === groups.length
      && Math.abs(total - 1) <= 1e-9 && groups.every(({ share }) => share > 0 && share <= 1),
    virtual_cost: groups.every((group) => isVirtualCost(group.virtual_cost, needed)),
    objective: isObjective(market.objective, needed),
    epsilon_cost: isEpsilonCost(market.epsilon_cost),
    delta: market.delta >= 0 && market.delta < 1 && delta <= market.delta,
    budget: budget === null ? market.mechanism !== "cross-priced" : budget > 0 && budget <= LARGEST,
    prices: prices.length === parts,
    split: (split !== null) === (market.mechanism === "cross-priced")
      && (split === null || (digests && isHash(split.salt) && split.parts === parts)),
  });
  if (wrong.length) return wrong;
  const own = new Market(body);
  for (const { payment_weight: weight, schedules } of prices) {
    if (!(weight === null || (weight > 0 && weight <= 1e100)) || schedules.length !== groups.length) return ["prices"];
    if (!schedules.every((one) => isSchedule(one, own))) return ["schedules"];
  }
  return [];
}

function partOf(seller, salt, parts) {
  const digest = sha256(joined(inUtf8("dpmarket-part-1"), hashOf(salt), inUtf8(seller)));
  return Number(new DataView(digest.buffer).getBigUint64(0) % BigInt(parts));
}
