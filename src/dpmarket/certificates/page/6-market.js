// A market's public tables, and what an epsilon is paid by them: by a schedule, or between the first knot's and the
// reserve price's cost where all reports decided together.

const MECHANISMS = { online: 1, "posted price": 1, "cross-priced": 16, offline: 0 };
const POWERS = { linear: 1, quadratic: 2 };
const CLOSE = new Fraction(1n, 10n ** 9n);
const UNIT_PART = new Fraction(2n, 10n ** 6n);
const neverFalls = (numbers) => numbers.every((x, k) => k === 0 || numbers[k - 1] <= x);
const lastOf = (values) => values[values.length - 1];
const isBelow = (x, knot) => (typeof x === "number" ? x < knot : x.against(Fraction.of(knot)) < 0);

// A table's value, exactly, at a number or a fraction; the first and the last value beyond its ends.
function interpolated(x, knots, values) {
  const k = knots.findIndex((knot) => isBelow(x, knot));
  if (k <= 0) return Fraction.of(k === 0 ? values[0] : lastOf(values));
  const [low, high, before, after] = [knots[k - 1], knots[k], values[k - 1], values[k]].map(Fraction.of);
  const place = typeof x === "number" ? Fraction.of(x) : x;
  return before.plus(after.minus(before).times(place.minus(low)).over(high.minus(low)));
}

class Schedule {
  constructor({ costs, epsilons, amounts }) {
    [this.costs, this.epsilons, this.amounts] = [costs, epsilons, amounts];
    this.backwards = [[...epsilons].reverse(), [...costs].reverse()];
  }

  // A cost at which this epsilon is offered; null if it is not.
  costOf(epsilon) {
    const [e, first, last] = [epsilon, this.epsilons[0], lastOf(this.epsilons)].map(Fraction.of);
    const offered = last.times(ONE.minus(CLOSE)).isAtMost(e) && e.isAtMost(first.times(ONE.plus(CLOSE)));
    return offered ? interpolated(epsilon, ...this.backwards) : null;
  }

  epsilon(cost) { return cost > lastOf(this.costs) ? ZERO : interpolated(cost, this.costs, this.epsilons); }

  // What is paid at a cost, before rounding: a number or a fraction.
  payment(cost) {
    const given = typeof cost === "number" ? Fraction.of(cost) : cost;
    const [first, last] = [this.costs[0], lastOf(this.costs)].map(Fraction.of);
    if (given.against(last) > 0) return ZERO;
    const c = given.isAtMost(first) ? first : given;
    let [before, amount] = [c, interpolated(c, this.costs, this.amounts)];
    let paid = c.times(amount);
    this.costs.forEach((knot, k) => {
      if (!isBelow(before, knot)) return;
      const [here, less] = [Fraction.of(knot), Fraction.of(this.amounts[k])];
      paid = paid.plus(amount.plus(less).over(TWO).times(here.minus(before)));
      [before, amount] = [here, less];
    });
    return paid;
  }
}

class Market {
  constructor({ market, money }) {
    [this.found, this.units, this.table] = [market, whole(money.minor_units), market.epsilon_cost];
    this.prices = market.prices.map(({ schedules }) => schedules.map((one) => new Schedule(one)));
  }

  isSold(epsilon) { return this.table.shares === null || epsilon <= lastOf(this.table.epsilons) * (1 + 1e-9); }

  amount(epsilon) {
    return this.table.shares === null ? Fraction.of(epsilon) : interpolated(epsilon, this.table.epsilons, this.table.costs);
  }

  schedule({ part, group }) { return this.prices.length ? this.prices[part][group] : null; }

  ends({ group }) {
    const { knots } = this.found.groups[group].virtual_cost;
    return [Fraction.of(knots[0]), Fraction.of(lastOf(knots))];
  }

  hasPrices({ part, group }) { return part < Math.max(this.prices.length, 1) && group < this.found.groups.length; }

  isPlaced(line) {
    const { split } = this.found;
    if (split === null) return this.hasPrices(line);
    const digest = sha256(joined(inUtf8("dpmarket-part-1"), bytesOfHash(split.salt), inUtf8(line.id)));
    const part = Number(new DataView(digest.buffer).getBigUint64(0) % BigInt(split.parts));
    return this.hasPrices(line) && part === line.part;
  }

  isPaid(line) {
    const [{ epsilon, payment }, schedule] = [line, this.schedule(line)];
    if (epsilon === 0) return payment === 0;
    if (schedule !== null) {
      const cost = schedule.costOf(epsilon);
      return cost !== null && this.isDue(line, schedule.payment(cost), schedule.payment(cost));
    }
    const [first, reserve] = this.ends(line).map((end) => end.times(this.amount(epsilon)));
    const unpaid = payment === 0 && !reserve.times(this.units).isAtMost(UNIT_PART);
    return this.isSold(epsilon) && !unpaid && this.isDue(line, first, reserve);
  }

  // Why a line is not the quote at a reported cost; empty if it is, as far as tables tell.
  quoteProblem(line, cost) {
    const epsilon = Fraction.of(line.epsilon);
    const sold = POWERS[this.table.shape] === 2 ? epsilon.times(epsilon) : epsilon;
    const loss = Fraction.of(cost).times(sold).times(this.units);
    const covered = loss.times(ONE.minus(CLOSE)).minus(UNIT_PART).isAtMost(Fraction.of(line.payment));
    if (!covered) return "the payment does not cover your cost";
    const schedule = this.schedule(line);
    if (schedule === null) {
      const fits = Fraction.of(cost).isAtMost(this.ends(line)[1]) || line.epsilon === 0;
      return fits ? "" : "the cost is above the reserve price, and something was bought";
    }
    const [due, room] = [schedule.payment(cost), Fraction.of(schedule.epsilons[0]).times(CLOSE)];
    const close = schedule.epsilon(cost).minus(epsilon).absolute().isAtMost(room);
    return close && this.isDue(line, due, due) ? "" : "the announced prices give another quote";
  }

  isDue({ payment }, lowest, highest) {
    const [paid, low, high] = [Fraction.of(payment), lowest.times(this.units), highest.times(this.units)];
    const room = UNIT_PART.plus(high.times(CLOSE));
    return low.minus(room).isAtMost(paid) && paid.isAtMost(high.plus(room).plus(ONE));
  }
}

function isEpsilonCost({ shape, shares, epsilons, costs }) {
  if (shares === null) return true;
  const columns = [epsilons, costs];
  if (shares[0] !== 0 || columns.some((x) => x.length !== shares.length || x[0] !== 0)) return false;
  const isConvex = (values) => {
    const slopes = values.slice(1).map((value, k) => (value - values[k]) / (shares[k + 1] - shares[k]));
    return slopes.every((slope, k) => k === 0 || slopes[k - 1] <= slope * (1 + 1e-6));
  };
  const own = epsilons.map((e) => (POWERS[shape] === 2 ? e ** 2 : e));
  return columns.every(isConvex) && own.every((x, k) => within(costs[k], x * (1 - 1e-9), x * (1 + 1e-3)));
}

// Prices that follow from other sellers' reports stay between the announced first cost and reserve price.
function isSchedule({ costs, epsilons, amounts }, market, knots) {
  if (knots !== null && !(knots[0] <= costs[0] && lastOf(costs) <= lastOf(knots))) return false;
  return epsilons.length === costs.length && amounts.length === costs.length
    && neverFalls([...epsilons].reverse()) && neverFalls([...amounts].reverse())
    && market.isSold(epsilons[0])
    && epsilons.every((e, k) => {
      const own = market.amount(e);
      return own.minus(Fraction.of(amounts[k])).absolute().isAtMost(CLOSE.times(own));
    });
}

function marketProblems(market, own, delta) {
  const { mechanism, groups, prices, objective, budget, split } = market;
  const [isSplit, needsTables] = [mechanism === "cross-priced", ["offline", "cross-priced"].includes(mechanism)];
  const total = groups.reduce((sum, { share }) => sum + share, 0);
  const isSound = ({ knots, values }) => values.length === knots.length && neverFalls(values);
  const wrong = namesOf({
    groups: new Set(groups.map(({ name }) => name)).size === groups.length && groups.length <= 1000
      && Math.abs(total - 1) <= 1e-9,
    virtual_cost: groups.every(({ virtual_cost: table }) => (table === null ? !needsTables : isSound(table))),
    objective: objective !== null || !needsTables,
    epsilon_cost: isEpsilonCost(market.epsilon_cost),
    delta: delta <= market.delta,
    budget: budget !== null || !isSplit,
    prices: prices.length === MECHANISMS[mechanism] && prices.every(({ schedules }) => schedules.length === groups.length),
    split: (split !== null) === isSplit,
  });
  if (wrong.length) return wrong;
  const bounds = groups.map(({ virtual_cost: table }) => (isSplit ? table.knots : null));
  return own.prices.every((part) => part.every((one, k) => isSchedule(one, own, bounds[k]))) ? [] : ["schedules"];
}
