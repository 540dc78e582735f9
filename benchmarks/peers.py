"""The peers behind one signature: epsilon of T Poisson-sampled Gaussian steps, and the noise for a target.

Each adapter imports its package when called and raises `Missing` where that is not installed or the package cannot do the task.
Settings are the packages' defaults unless the name says otherwise.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from measure import Missing

Epsilon = Callable[[float, float, int, float], float]


def dp_accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise Missing("not installed") from None
    logging.disable(logging.WARNING)  # one line of warning for every order that fails
    warnings.simplefilter("ignore")
    return dp_accounting


def sampled_gaussian(package: Any, q: float, sigma: float) -> Any:
    return package.PoissonSampledDpEvent(q, package.GaussianDpEvent(sigma))


def google_pld(q: float, sigma: float, steps: int, delta: float) -> float:
    package = dp_accounting()
    return float(package.pld.PLDAccountant().compose(sampled_gaussian(package, q, sigma), steps).get_epsilon(delta))


def google_rdp(q: float, sigma: float, steps: int, delta: float) -> float:
    package = dp_accounting()
    return float(package.rdp.RdpAccountant().compose(sampled_gaussian(package, q, sigma), steps).get_epsilon(delta))


def prv(q: float, sigma: float, steps: int, delta: float, error: float = 0.1) -> float:
    try:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    except ImportError:
        raise Missing("not installed") from None
    warnings.simplefilter("ignore")
    mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=q)
    accountant = PRVAccountant(prvs=[mechanism], max_self_compositions=[steps], eps_error=error, delta_error=delta / 1000)
    return float(accountant.compute_epsilon(delta, [steps])[2])


def autodp(q: float, sigma: float, steps: int, delta: float) -> float:
    try:
        from autodp.mechanism_zoo import GaussianMechanism
        from autodp.transformer_zoo import AmplificationBySampling, Composition
    except ImportError:
        raise Missing("not installed") from None
    warnings.simplefilter("ignore")
    noise = GaussianMechanism(sigma=sigma)
    noise.neighboring = "add_remove"
    sampled = AmplificationBySampling(PoissonSampling=True)(noise, q, improved_bound_flag=True)
    return float(Composition()([sampled], [steps]).get_approxDP(delta))


def opendp(q: float, sigma: float, steps: int, delta: float) -> float:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise Missing("not installed") from None
    if q != 1:
        raise Missing("no Poisson sampling")
    dp.enable_features("contrib")
    noise = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=sigma)
    return float(dp.c.make_zCDP_to_approxDP(dp.c.make_composition([noise] * steps)).map(1.0).epsilon(delta))


DP_SGD: dict[str, Epsilon] = {
    "dp_accounting PLD": google_pld,
    "dp_accounting RDP": google_rdp,
    "prv_accountant (0.1)": prv,
    "autodp RDP": autodp,
    "opendp": opendp,
}
MODULES: dict[str, tuple[str, ...]] = {
    "tacit": ("tacit.accounting",),
    "dp_accounting PLD": ("dp_accounting", "dp_accounting.pld"),
    "dp_accounting RDP": ("dp_accounting", "dp_accounting.rdp"),
    "prv_accountant (0.1)": ("prv_accountant",),
    "autodp RDP": ("autodp.mechanism_zoo", "autodp.transformer_zoo"),
    "opendp": ("opendp.prelude",),
}
