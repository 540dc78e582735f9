"""OpenDP's measurements, for `bench_leaks.py`. Missing values are imputed before the clamp, as its types ask for."""

from __future__ import annotations

from importlib.metadata import version

import opendp.prelude as dp
from leaks_sampling import Asked, main, spent_in_tenths

dp.enable_features("contrib")
SLOW = 0.2  # one call takes about half a millisecond


def budget() -> str:
    measure = dp.max_divergence()
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    compositor = dp.c.make_adaptive_composition(*space, measure, 1, [0.1] * 10)(3)

    def spend(epsilon: float):
        return compositor(dp.m.make_laplace(*space, scale=1 / epsilon))

    return spent_in_tenths(spend)


if __name__ == "__main__":
    whole = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    rows = dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance()
    clamped = rows >> dp.t.then_impute_constant(0.5) >> dp.t.then_clamp((0.0, 1.0))
    # An exchanged row is two steps of its metric: scale 2 for epsilon 1 there, scale 1 for a row more.
    more, exchanged = (clamped >> dp.t.then_sum() >> dp.m.then_laplace(scale=scale) for scale in (1.0 + 1e-6, 2.0 + 1e-6))
    whole_noise = dp.m.make_laplace(*whole, scale=1.0)
    main(
        version("opendp"),
        {
            "count, Laplace": Asked(whole_noise, share=SLOW),
            "count, geometric": Asked(dp.m.make_geometric(*whole, scale=1.0, bounds=(0, 10)), share=SLOW),
            "count, Gaussian": Asked(dp.m.make_gaussian(*whole, scale=1.0), "rho=0.5", share=SLOW),
            "float noise": Asked(dp.m.make_laplace(*real, scale=1.0), share=SLOW),
            "sum, one row more": Asked(more, share=SLOW),
            "sum, one row NaN": Asked(exchanged, share=SLOW),
            "sum, one row 1e308": Asked(exchanged, share=SLOW),
        },
        budget,
    )
