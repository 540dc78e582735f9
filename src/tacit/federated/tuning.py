"""Trying several settings of a federated run, with one price for all of them.

Clients and server see the models of every trial, not of the best one alone. So the number of trials is no secret, the
theorems on selecting the best of a random number of them (`tacit.deep.tune`) do not apply, and all trials are paid for:
the price is their composition, which is sharper than the sum of their epsilons. Every client's own book pays for each.

>>> from tacit.federated.plan import plan
>>> made = plan(clients=1000, size=2, clip=1.0, rounds=2, noise_multiplier=8, delta=1e-6)
>>> found = tune(lambda rate: rate * 3, [0.5, 1.0], plan=made, score=lambda model: -abs(model - 3), score_plan="public")
>>> [one.parameters for one in found], found[0].event
([1.0, 0.5], Composed(Repeated(event=Gaussian(noise_multiplier=8), count=2), Repeated(event=Gaussian(noise_multiplier=8), count=2)))

Guarantee
    Statement: the models of all trials, and all scores, cost `event` of each result, against the plans' adversary.
    Conditions: `train` runs the plan of its setting, once; a score costs its plan, or comes from public data.
    Proved in: composition; the settings are fixed before anything is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tacit.federated.plan import FederatedPlan
from tacit.ledger import Account

if TYPE_CHECKING:
    from tacit.deep import Tuned


def tune(
    train: Callable[[Any], Any], space: Mapping[str, Sequence[Any]] | Iterable[Any], *,
    plan: FederatedPlan | Callable[[Any], FederatedPlan], score: Callable[[Any], float],
    score_plan: FederatedPlan | Literal["public"], account: Account | None = None, delta: float | None = None,
) -> list[Tuned[Any, Any]]:
    """Run `train(setting)` for every setting of `space`, and give all of them, best first; each carries the whole price.

    `plan` is the plan of a run, or a function of the setting; `score_plan` that of a score, such as `evaluation(...).plan`.
    Give no account to the runs inside `train`: they would be paid for twice.
    """
    from tacit.deep import tune_grid

    return tune_grid(
        train, space, event=plan.event if isinstance(plan, FederatedPlan) else lambda setting: plan(setting).event,
        score=score, score_event=score_plan.event if isinstance(score_plan, FederatedPlan) else score_plan, account=account,
        purpose="federated tuning", delta=delta,
    )  # fmt: skip
