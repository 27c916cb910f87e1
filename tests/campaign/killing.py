"""Acts in processes of their own that kill themselves after one of their writes."""

from dataclasses import replace

from campaign.live import METHODS, opened, release
from dpmarket.campaign import payouts, quoting, sellers, worker
from dpmarket.campaign.acts import OWNER, Caller
from outside.processes import forks, kill_after_write


def do(place, folder, act, values, now, number):
    """Do an act that is killed after so many writes; return its exit code (negative: the signal)."""
    process = forks().Process(target=_act, args=(place, folder, act, values, now, number))
    process.start()
    process.join()
    return process.exitcode


def methods(folder):
    """Return what a worker needs, with a release that notes each time it draws noise."""

    def draw(records, names, before_noise):
        before_noise()
        with (folder / "noise").open("a") as file:
            file.write("1\n")
        return release(records, names, before_noise)

    return replace(METHODS, release=lambda campaign: draw)


def _act(place, folder, act, values, now, number):
    with opened(place, folder, lambda: now, make=False) as market:
        kill_after_write(number)
        ACTS[act](market, folder, *values)


def _work(market, folder):
    worker.work(market, methods(folder))


def _pay(market, folder, campaign):
    made = market.run(payouts.pay_out, OWNER, campaign)
    lines = payouts.payout_lines(market, made.id)
    (folder / "paid").write_text("\n".join(lines.get_column("reference")))


def _by_seller(act, *values, **options):
    return lambda market, _, me: market.run(act, Caller(participation=me), *values, **options)


ACTS = {
    "choose": _by_seller(quoting.choose, 2.0, key="k" * 20),
    "accept": _by_seller(sellers.accept),
    "withdraw": _by_seller(sellers.withdraw),
    "work": _work,
    "pay": _pay,
}
