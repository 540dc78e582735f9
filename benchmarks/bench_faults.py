"""The same inputs to a peer and to Tacit, where the peer's figure is wrong."""

from __future__ import annotations

import math

from side_by_side import attempt, table

from tacit.accounting import Adjacency, Gaussian, ParameterError, Poisson, RandomizedResponse, Repeated, Sampled, account


def _google_pld(event, delta: float, relation=None) -> float:
    import dp_accounting as dp

    accountant = dp.pld.PLDAccountant(*([relation] if relation else []))
    return accountant.compose(event).get_epsilon(delta)


def small_delta() -> list[object]:
    def call() -> float:
        import dp_accounting as dp

        return _google_pld(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1e-3, dp.GaussianDpEvent(0.8)), 100_000), 1e-10)

    ours = account(Repeated(Sampled(Poisson(1e-3), Gaussian(0.8)), 100_000)).epsilon(1e-10).upper
    value, _, remark = attempt(call, seconds=0.1, most=1)
    return ["B3 at delta 1e-10 (truth 4.069167307)", remark or value, ours, "below the truth: FFT round-off swamps the tail"]


def repeated_response() -> list[object]:
    def call() -> float:
        import dp_accounting as dp

        epsilon = 0.1
        p = 2 / (1 + math.exp(epsilon))  # the chance of a uniform answer
        return _google_pld(dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(p, 2), 1000), 1e-5, dp.NeighboringRelation.REPLACE_ONE)

    ours = account(Repeated(RandomizedResponse(0.1), 1000)).epsilon(1e-5).upper
    value, _, remark = attempt(call, seconds=0.1, most=1)
    return ["1,000 randomised responses (truth 17.78712845)", remark or value, ours, "the count of a repeated event is ignored"]


def nan_noise() -> list[object]:
    def call() -> float:
        import dp_accounting as dp

        return dp.rdp.RdpAccountant().compose(dp.GaussianDpEvent(math.nan)).get_epsilon(1e-5)

    try:
        Gaussian(math.nan)
        ours: object = "accepted"
    except ParameterError as refusal:
        ours = f"refused: {refusal}"
    value, _, remark = attempt(call, seconds=0.1, most=1)
    return ["Gaussian noise of NaN", remark or value, ours, "a mistake is priced as free"]


def replacement() -> list[object]:
    def call() -> float:
        import dp_accounting as dp

        relation = dp.NeighboringRelation.REPLACE_ONE
        return dp.rdp.RdpAccountant(neighboring_relation=relation).compose(dp.GaussianDpEvent(1.0)).get_epsilon(1e-5)

    ours = account(Gaussian(1), Adjacency.REPLACE_ONE).epsilon(1e-5).upper
    value, _, remark = attempt(call, seconds=0.1, most=1)
    return ["Gaussian(1) under replace-one", remark or value, ours, "RDP prices it as add/remove, PLD doubles it"]


if __name__ == "__main__":
    table(
        "same input", ["input", "dp_accounting", "tacit", "what is wrong"], [small_delta(), repeated_response(), nan_noise(), replacement()]
    )
