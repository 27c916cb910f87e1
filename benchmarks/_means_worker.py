"""Release means with diffprivlib and OpenDP for private_statistics.py: jobs in, means out, one line each.

Runs in an environment of its own. A job is one line, ``{"library", "records", "epsilon", "count"}``, with
records within [0, 1]; the answer is one line with as many means, each with fresh noise. For both libraries a
neighbour is a data set of the same size with one record replaced.
"""

from __future__ import annotations

import json
import sys
import warnings


def of_diffprivlib(records: list[float], epsilon: float, count: int) -> list[float]:
    from diffprivlib.tools import mean

    return [float(mean(records, epsilon=epsilon, bounds=(0.0, 1.0))) for _ in range(count)]


def of_opendp(records: list[float], epsilon: float, count: int) -> list[float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0), nan=False), size=len(records))
    space = domain, dp.symmetric_distance()
    one_replaced = 2  # one record taken away, one added
    release = dp.binary_search_chain(
        lambda scale: space >> dp.t.then_mean() >> dp.m.then_laplace(scale), one_replaced, epsilon
    )
    return [float(release(records)) for _ in range(count)]


LIBRARIES = {"diffprivlib": of_diffprivlib, "OpenDP": of_opendp}


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(LIBRARIES[job.pop("library")](**job)), flush=True)


if __name__ == "__main__":
    main()
