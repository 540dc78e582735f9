"""Random allocation (balls in bins): bracket, width and time. The research package is not on the index; its brackets are quoted."""

from __future__ import annotations

from side_by_side import table, timed

from tacit.accounting import Gaussian, Poisson, RandomAllocation, Repeated, Sampled, account

CASES = [  # steps, epochs, quoted bracket
    (100, 1, "[.6085, .6356] in 1.4 s"),
    (1000, 1, "[.1364, .1422] in 32 s"),
    (100, 10, ""),
    (234, 60, "395 s, 4 to 5% wide"),
]


def main() -> None:
    rows = []
    for steps, epochs, quoted in CASES:
        cost = account(Repeated(Sampled(RandomAllocation(steps), Gaussian(1)), epochs))
        _, seconds = timed(lambda c=cost: c.epsilon(1e-5).upper, seconds=2.0, most=3)
        found = cost.epsilon(1e-5)
        poisson = account(Repeated(Sampled(Poisson(1 / steps), Gaussian(1)), steps * epochs)).epsilon(1e-5).upper
        rows.append([f"1 of {steps}, {epochs} epochs", found.lower, found.upper, found.width, seconds, poisson, quoted])
    table("sigma 1, delta 1e-5", ["case", "lower", "upper", "width", "seconds", "Poisson", "research package"], rows)


if __name__ == "__main__":
    main()
