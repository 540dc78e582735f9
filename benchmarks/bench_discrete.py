"""Laplace, randomised response, discrete noise and mixed trees: width and time, beside dp_accounting's PLD where it has the event."""

from __future__ import annotations

from side_by_side import attempt, table, timed

from tacit.accounting import (
    Adjacency,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Poisson,
    RandomizedResponse,
    Repeated,
    Sampled,
    account,
)

AR = Adjacency.ADD_REMOVE
CASES: list[tuple[str, Event, float, tuple[str, float, int] | None]] = [
    ("Laplace eps .01 x 1e3", Repeated(Laplace(100), 1000), 1e-5, ("LaplaceDpEvent", 100.0, 1000)),
    ("Laplace eps .1 x 1e3", Repeated(Laplace(10), 1000), 1e-5, ("LaplaceDpEvent", 10.0, 1000)),
    ("Laplace eps .1 x 1e6", Repeated(Laplace(10), 10**6), 1e-20, None),
    ("Laplace eps 1 x 3", Repeated(Laplace(1), 3), 1e-20, None),
    ("randomised response .1 x 1e6", Repeated(RandomizedResponse(0.1), 10**6), 1e-20, None),
    ("discrete Laplace 10 x 1e3", Repeated(DiscreteLaplace(10), 1000), 1e-5, None),
    ("discrete Gaussian 10 x 1e6", Repeated(DiscreteGaussian(10), 10**6), 1e-20, None),
    (
        "Laplace x 100 + Gaussian + DP-SGD",
        Composed(Repeated(Laplace(10), 100), Gaussian(5), Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000)),
        1e-6,
        None,
    ),
    (
        "Laplace x 30 + discrete Laplace x 50 + response x 20",
        Composed(Repeated(Laplace(10), 30), Repeated(DiscreteLaplace(7), 50), Repeated(RandomizedResponse(0.3, adjacency=AR), 20)),
        1e-6,
        None,
    ),
]


def google(name: str, noise: float, count: int, delta: float) -> float:
    import dp_accounting as dp

    return dp.pld.PLDAccountant().compose(dp.SelfComposedDpEvent(getattr(dp, name)(noise), count)).get_epsilon(delta)


def main() -> None:
    rows = []
    for label, event, delta, peer in CASES:
        _, seconds = timed(lambda e=event, d=delta: account(e).epsilon(d).upper, seconds=2.0, most=5)
        found = account(event).epsilon(delta)
        value, taken, remark = attempt(lambda p=peer, d=delta: google(*p, d), seconds=2.0, most=3) if peer else (0.0, 0.0, "-")
        rows.append([label, found.upper, found.width, seconds * 1e3, remark or value, remark or taken / seconds])
    table("discrete and atomic losses", ["case", "epsilon", "width", "ms", "dp_accounting PLD", "times slower"], rows)


if __name__ == "__main__":
    main()
