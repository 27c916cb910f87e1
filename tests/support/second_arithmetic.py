"""What is not true in papers of any kind, by arithmetic of 60 digits that shares nothing with the verifier.

Maxima are searched for, not solved for, and normal laws are mpmath's: a forged certificate that passes the
verifier although :func:`lies` names something in it is a hole.
"""

import functools
from fractions import Fraction

import mpmath

from support.forging import VALUES

PARTS = 2**24
TINY = mpmath.mpf(10) ** -40


def lies(papers):
    """Return the names of what is not true; call it with ``mpmath.workdps(60)``."""
    if papers.constants["kind"] == "statistic":
        return _of_statistics(papers) + _of_totals(papers)
    return _of_model(papers) + _of_totals(papers)


# --- models ---


def _of_model(papers):
    c = dict(papers.constants)
    constant = mpmath.mpf(c["intercept_scaling"]) if c["fit_intercept"] else mpmath.mpf(0)
    found = _too_short(c, constant)
    g, l2 = mpmath.mpf(c["grid"]), mpmath.mpf(c["l2"])
    rho = (mpmath.mpf(c["gradient_bound"]) + c["noise_accuracy"]) / l2
    if g <= 2 * rho:
        return [*found, "grid"]
    release = _release_cost(c, g, rho)
    if release > c["numerical_epsilon"]:
        found.append("charged")
    bought = sum(line["promise"] > 0.0 and not line.get("withdrew") for line in papers.lines)
    if "gaussian" not in c["kind"] and c["delta"] != 0.0:
        found.append("delta")
    if "gaussian" in c["kind"] and not 0 < c["delta"] <= 1.0 / (10 * max(bought, 1)):
        found.append("delta")
    weights = mpmath.mpf(0)
    for line in papers.lines:
        if line.get("withdrew"):
            if line["spent"] or line["weight"]:
                found.append("used after leaving")
            continue
        if line["weight"] and not _is_covered(line, c, release):
            found.append("spent")
        if line["spent"] > line["promise"]:
            found.append("promise")
        weights += mpmath.mpf(line["weight"])
    if weights > c["weight_total"] * (1 + mpmath.mpf(10) ** -15):
        found.append("weights")
    return found


def _too_short(c, constant):
    """Rows of norm 1 with their constant are longer than stated."""
    first = mpmath.mpf(c["row_bound"])
    if "joint_columns" not in c or c["joint_columns"] == len(c["coef_grid"]):
        return [] if first**2 >= 1 + constant**2 else ["row_bound"]
    second = mpmath.mpf(c.get("euclidean_bound", first))  # with a delta the one bound is Euclidean
    longest = first >= 1 + constant or "euclidean_bound" not in c
    found = [] if longest and constant <= second <= first else ["row_bound"]
    if c["encoder"] is not None:
        columns, radius = c["encoder"]["columns"].values(), c["encoder"]["radius"]
        numbers = sum("low" in column or "first" in column for column in columns)
        groups = sum(
            bool({"categories", "boolean"} & set(column)) or column.get("missing_category", False)
            for column in columns
        )
        length = min(mpmath.mpf(radius), mpmath.sqrt(numbers))
        whole = (length if c["joint_columns"] else mpmath.sqrt(numbers) * length) + groups
        # The room that the documentation states for what the encoder's own rounding may have lost.
        if second**2 < ((length**2 + groups) / whole**2 + constant**2) * (1 - mpmath.mpf("1.01e-8")):
            found.append("encoder")
    return found


def _release_cost(c, g, rho):
    eta, l2, bound, total = (
        mpmath.mpf(c[name]) for name in ("noise_rate", "l2", "row_bound", "weight_total")
    )
    many = "softmax" in c["kind"]
    classes, n = len(c["classes"]), len(c["coef_grid"][0] if many else c["coef_grid"])
    size = classes * n if many else n
    long = mpmath.mpf(c.get("euclidean_bound", bound))
    if many:
        bent = min(2 * (classes - 1) * n * bound, 2 * (1 - mpmath.mpf(1) / classes) * total * bound**3 / l2)
    else:
        bent = min(n * long, total * long**3 / (6 * mpmath.sqrt(3) * l2))
    if "gaussian" in c["kind"]:
        deviation, root = 2 / eta, mpmath.sqrt(size)
        steepest = l2 + total * bound**2 / (2 if many else 4)
        longest = deviation * (root + mpmath.sqrt(120 * mpmath.log(2)))
        longest += 2 * steepest * root * (g / 2 + rho)
        moved = root * steepest * longest / deviation**2
    elif many:
        moved = mpmath.sqrt(n) * eta / 2 * (classes * l2 + total * bound**2)
    else:
        joint = c.get("joint_columns", n)
        ones, sums = mpmath.sqrt(n), bound * mpmath.sqrt(n)
        if joint != n:
            ones = mpmath.sqrt(joint) + n - joint
            sums = min(mpmath.sqrt(n) * long, mpmath.sqrt(max(joint, 1)) * bound)
        moved = eta / 2 * (l2 * ones + total * bound * sums / 4)
    return size * mpmath.log((g + 2 * rho) / (g - 2 * rho)) + 2 * rho * (moved + mpmath.sqrt(n) * bent)


def _is_covered(line, c, release):
    a, spent = mpmath.mpf(line["weight"]), mpmath.mpf(line["spent"])
    if "gaussian" not in c["kind"]:
        return spent >= (_largest_loss(a, c) + release) * (1 - TINY)
    epsilon = spent - release
    if epsilon < 0:
        return False
    allowed = (mpmath.mpf(c["delta"]) - mpmath.mpf(2) ** -60) * mpmath.exp(-release)
    return min(_gaussian_deltas(a, epsilon, c)) <= allowed * (1 + TINY)


def _largest_loss(a, c):
    softmax = (len(c["classes"]), len(c["coef_grid"][0])) if "softmax" in c["kind"] else ()
    long = c.get("euclidean_bound", c["row_bound"])
    return _loss(a, c["noise_rate"], c["l2"], c["row_bound"], long, c["rows_per_person"], *softmax)


@functools.cache  # most lines stay as they were when something else is changed
def _loss(a, eta, l2, bound, long, r, classes=None, n=None):
    eta, l2, bound, long = (mpmath.mpf(value) for value in (eta, l2, bound, long))
    h = a * long**2 / l2
    if classes is None:
        linear = a * eta * bound / 2
        return linear + _maximum(lambda s: linear * s + r * mpmath.log(1 + h / r * s * (1 - s)))
    linear = a * eta * bound
    wrong = mpmath.mpf(classes - 1)

    def by_rows(s):
        curved = r * mpmath.log(1 + h / r * s * (1 - s) * classes / wrong)
        return linear * s + curved + r * (classes - 2) * mpmath.log(1 + h / r * s / wrong)

    def by_trace(s):
        return linear * s + n * wrong * mpmath.log(1 + h * (2 * s - s**2 * classes / wrong) / (n * wrong))

    return linear + min(_maximum(by_rows), _maximum(by_trace))


def _maximum(function):
    """Return the largest value on [0, 1] of a function with one maximum: golden section.

    After 100 steps the place is known to 1e-21, and the value, flat there, to about its square.
    """
    ratio = (mpmath.sqrt(5) - 1) / 2
    low, left, right, high = mpmath.mpf(0), 1 - ratio, ratio, mpmath.mpf(1)
    at_left, at_right = function(left), function(right)
    for _ in range(100):
        if at_left > at_right:
            left, right, high = right - ratio * (right - low), left, right
            at_left, at_right = function(left), at_left
        else:
            low, left, right = left, right, left + ratio * (high - left)
            at_left, at_right = at_right, function(right)
    return max(at_left, at_right, function(mpmath.mpf(1)))


def _gaussian_deltas(a, epsilon, c):
    """Yield the deltas at an epsilon, of every sum that may be charged."""
    eta, l2, bound = (mpmath.mpf(c[name]) for name in ("noise_rate", "l2", "row_bound"))
    h, mu, rows = a * bound**2 / l2, a * eta * bound, c["rows_per_person"]
    if "softmax" not in c["kind"]:
        yield _delta_sum(epsilon, mu, h, [(1, 1, 0), (1, 0.5, 0), (1, 0.5, 1)], rows)
        if rows == 1:
            yield _delta_sum(epsilon, mu, mpmath.log(1 + h / 4), [(1, 1, 1), (2, 0.5, 1)], rows)
        return
    k = len(c["classes"])
    share = (k - 1) * mpmath.log(1 + h / k) if rows == 1 else h * (k - 1) / k
    terms = [(k - 1, 1, 1), ((k - 1) * (k - 2), mpmath.sqrt(3) / 2, 1), (2 * (k - 1), 0.5, 1)]
    yield _delta_sum(epsilon, mpmath.sqrt(2) * mu, share, terms, rows)


def _delta_sum(epsilon, mu, share, terms, rows):
    if share > epsilon:
        return mpmath.mpf(1)
    total = mpmath.mpf(0)
    for count, length, moved in terms:
        at, m = epsilon - share * moved, mu * length
        if rows == 1:
            x = at / m - m / 2
            total += count * (mpmath.ncdf(-x) - mpmath.exp(at) * mpmath.ncdf(-x - m))
        else:
            x = at / m
            total += count * mpmath.expm1(epsilon) / epsilon * m * (mpmath.npdf(x) - x * mpmath.ncdf(-x))
    return total


# --- statistics ---


def _of_statistics(papers):
    c = papers.constants
    found = ["delta"] if c["delta"] != 0.0 else []
    asked = c["statistics"]
    units = [Fraction(2) ** part["unit_exponent"] for part in asked]
    spent = [int(part["total_weight"]) * unit for part, unit in zip(asked, units, strict=True)]
    promised = Fraction(papers.body["totals"]["total_promise"])
    for part, unit, used in zip(asked, units, spent, strict=True):
        if Fraction(part["noise_scale"]) < _moves(part["question"]) * PARTS / unit:
            found.append("noise")
        if used > Fraction(part["share"]) * promised:
            found.append("share")
        if any(abs(a - b) > 1e-6 for a, b in zip(_stated(part), part["values"], strict=True)):
            found.append("values")
    weights = [Fraction(line["weight"]) for line in papers.lines]
    if any((weight / min(units)).denominator != 1 for weight in weights) or sum(weights) != sum(spent):
        found.append("weights")
    for line in papers.lines:
        if line["withdrew"] and (line["spent"] or line["weight"]):
            found.append("used after leaving")
        if line["spent"] < line["weight"]:
            found.append("spent")
        if not line["withdrew"] and line["spent"] > line["promise"]:
            found.append("promise")
    return found


def _moves(question):
    """By how many times its weight one person's records, replaced, move what is released."""
    two = len(question.get("categories", ())) == 2
    return 1 if question["kind"] in ("mean", "share") or two else 2


def _stated(part):
    """The values that follow from the whole numbers that were released."""
    question, whole = part["question"], int(part["total_weight"]) * PARTS
    numbers = [int(number) for number in part["numerators"]]
    shares = [number / whole for number in numbers]
    if question["kind"] == "quantile":
        return [question["candidates"][numbers[0]]]
    if question["kind"] in ("mean", "share"):
        low, high = question.get("low", 0.0), question.get("high", 1.0)
        return [min(max(low + (high - low) * shares[0], low), high)]
    if question["kind"] == "vector mean":
        bound = question["bound"]
        length = sum((bound * share) ** 2 for share in shares) ** 0.5
        return [bound * share * min(1.0, bound / length if length else 1.0) for share in shares]
    if len(question["categories"]) == 2:
        shares = [1.0 - shares[0], shares[0]]
    low, high = min(shares) - 1.0, max(shares)
    for _ in range(200):  # the number that, taken off all, leaves 1 in sum
        middle = (low + high) / 2.0
        low, high = (middle, high) if sum(max(share - middle, 0.0) for share in shares) > 1 else (low, middle)
    return [max(share - low, 0.0) for share in shares]


# --- what adds up ---


def _of_totals(papers):
    told, found = papers.body["totals"], []
    kept = [line for line in papers.lines if not line["withdrew"]]
    names = ("total_promise", "total_payment", "total_spent")
    for name, value in zip(names, VALUES, strict=False):
        exact = mpmath.fsum(mpmath.mpf(line[value]) for line in kept)
        if not exact * (1 - mpmath.mpf(10) ** -12) <= told[name] <= exact * mpmath.mpf("1.0101"):
            found.append(name)
    counts = {
        "sellers": len(papers.lines),
        "bought_from": sum(line["promise"] > 0.0 for line in kept),
        "withdrawn": len(papers.lines) - len(kept),
    }
    return found + [name for name, count in counts.items() if told[name] != count]
