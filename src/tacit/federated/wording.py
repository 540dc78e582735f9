"""Plans and policies in plain words, for the people who must agree to them.

>>> from tacit.federated.plan import plan
>>> print(described(plan(clients=20, size=10, clip=1, rounds=5, noise_multiplier=4, delta=1e-5)).splitlines()[0])
Plan "training": 5 rounds of 20 clients, each sending 10 numbers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.federated.plan import FederatedPlan


def described(plan: FederatedPlan) -> str:
    """The plan as a page of text: prices first, then how it works, then what it does not promise."""
    from tacit.federated.plan import NOT_PROMISED

    lines = [
        f'Plan "{plan.name}": {plan.rounds} rounds of {plan.clients} clients, each sending {plan.length:,} numbers',
        f"Protected: {plan.unit}; trust: {plan.trust}; cohorts: {_cohorts(plan)}",
        "Price:",
    ]
    titles = {"model": "whoever sees the models", "server": "the server", "server and clients": _together(plan)}
    width = max(len(title) for title in titles.values())
    for price in plan.prices():
        mark = "  <- the target" if price.adversary == plan.against else ""
        lines.append(f"  {titles[price.adversary]:<{width}}  {price.words}{mark}")
    if plan.trust == "silo":
        lines.append(f"Each silo trains privately inside, at {plan.inside!r} a round; its model is clipped at {plan.clip:g}")
    else:
        lines.append(
            f"Clip {plan.clip:g}{' at first, then the median of the norms' if plan.adaptive else ''}; noise multiplier "
            f"{plan.noise_multiplier:.6g}; noise in a coordinate of the mean {plan.deviation():.4g}"
        )
    if plan.strategy is not None:
        lines.append(f"Noise is correlated over the rounds by {type(plan.strategy).__name__}")
    if plan.participations < plan.rounds or plan.separation > 1:
        lines.append(
            f"A client takes part at most {plan.participations} times, {plan.separation} rounds apart; its own book says so"
        )
    lines += [f"{title}: {fact}" for title, fact in _shares(plan)]
    return "\n".join([*lines, "Not promised:", *(f"  {sentence}" for sentence in NOT_PROMISED)])


def _cohorts(plan: FederatedPlan) -> str:
    rule = plan.selection
    population = getattr(rule, "population", None)
    return type(rule).__name__ + (f" of {population:,}" if population else "")


def _together(plan: FederatedPlan) -> str:
    return f"the server with {plan.with_server} clients"


def _shares(plan: FederatedPlan) -> list[tuple[str, str]]:
    if plan.trust != "distributed":
        return []
    from tacit.federated.distributed import facts_of

    return facts_of(plan)
