"""A Flower strategy whose rounds are private: `Private(FedAvg(...), plan, account)`.

It drives the rounds of a plan through any Flower grid, pays for the whole plan before the first round, and hands the
noisy mean to the inner strategy as one reply of weight 1, so that server optimisers work as they are. Rules that look
at single updates are refused. What clients say beside their one vector is not read.

    strategy = Private(FedAdam(eta=0.1), plan, account)
    result = strategy.start(grid, initial_arrays)          # in the main function of a ServerApp

Guarantee
    Statement: the models of all rounds together cost `plan.event`; it is booked before the first message is sent.
    Conditions: clients are `tacit.federated.client_app`s. Under central trust this process is trusted.
    Proved in: the inner strategy sees noisy means only, so all it does is post-processing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.checkpoint import KeptRun
from tacit.federated.errors import FederatedError, RoundVoid, needs_flower
from tacit.federated.messages import Ask, Layout
from tacit.federated.plan import FederatedPlan
from tacit.federated.rounds import Rounds
from tacit.federated.selection import Separation
from tacit.federated.sums import mean_of
from tacit.ledger import Account, Payment

if TYPE_CHECKING:
    from tacit.federated.secure_sum.keys import Register

with needs_flower():
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi, Result, Strategy

KNOWN = (FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad)
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Private(Strategy):
    """The inner strategy on noisy means. `account` is a ledger account that pays; None books nothing.

    `rounds_void` counts rounds in which too few clients survived; they are spent and change nothing. `rounds.excluded`
    says, for each round, how many answers were left out in which phase. With `checkpoint`, the path of a file, a run whose
    server died goes on where it was: under its own payment, with new noise, and without the round that was under way. An
    inner optimiser begins anew then. Without one, a run from old arrays is a new run and pays for its own rounds.
    """

    def __init__(
        self, inner: FedAvg, plan: FederatedPlan, account: Account | None, *, run: str | None = None,
        register: Register | None = None, checkpoint: str | Path | None = None,
    ) -> None:
        if type(inner) not in KNOWN:  # a subclass may look at single replies
            raise FederatedError(code="federated-strategy", strategy=type(inner).__name__)
        if plan.question is not None:
            raise ParameterError("this plan is for a question of federated analytics; ask it with `ask`")
        self.inner, self.plan, self.account = inner, plan, account
        self.rounds = Rounds(plan, run=run, register=register)
        self.threshold = plan.clip
        self.thresholds: list[float] = []
        self.rounds_void = 0
        self._separation = Separation(plan.separation)
        self._started = False
        self._checkpoint = None if checkpoint is None else Path(checkpoint)

    # --- what Flower's class asks for, and Flower's own loop would use: it has no phases, so it is refused -------

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Grid) -> Iterable[Message]:
        raise FederatedError("a private round has phases of its own; call start()")

    def aggregate_train(self, server_round: int, replies: Any) -> tuple[ArrayRecord | None, MetricRecord | None]:
        raise FederatedError("a private round has phases of its own; call start()")

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Grid) -> Iterable[Message]:
        return []

    def aggregate_evaluate(self, server_round: int, replies: Any) -> MetricRecord | None:
        return None

    def summary(self) -> None:
        """Log the plan if a handler listens: its prices take a moment to work out."""
        from logging import INFO, getLogger

        logger = getLogger("flwr")
        for line in str(self.plan).splitlines() if logger.isEnabledFor(INFO) else []:
            logger.info("\t%s", line)

    # --- a run -------------------------------------------------------------------------------------------------

    def start(
        self, grid: Grid, initial_arrays: ArrayRecord, num_rounds: int | None = None, timeout: float = 3600,
        train_config: ConfigRecord | None = None, evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the rounds of the plan. `evaluate_fn` works on the server's own, public data.

        Evaluation on clients has a price: ask `tacit.federated.evaluation`.
        """
        rounds = self.plan.rounds if num_rounds is None else num_rounds
        if self._started:
            raise FederatedError("this run has started before; a new run needs a new Private, and pays for itself")
        if not 1 <= rounds <= self.plan.rounds:
            raise ParameterError(f"num_rounds must be between 1 and the plan's {self.plan.rounds}, not {rounds}")
        arrays = {name: array.numpy() for name, array in initial_arrays.items()}
        layout = Layout.of(arrays)
        if layout.size != self.plan.size:
            raise ParameterError(f"the model has {layout.size} numbers, and the plan was made for {self.plan.size}")
        self._started = True
        self.summary()
        result = Result()
        self._evaluated(result, 0, initial_arrays, evaluate_fn)
        config = json.dumps(dict(train_config or {}))
        kept = KeptRun(self._checkpoint, self.plan, self.rounds.run, arrays)
        self.rounds.run, self.threshold, arrays = kept.state.run, kept.state.threshold, kept.state.arrays
        result.arrays = _record(arrays)
        payment = kept.payment(self.account)
        for turn in range(kept.state.begun + 1, rounds + 1):
            nodes = self._cohort(grid, turn)  # public, and so are its refusals
            kept.begin(turn)
            with payment.touching(resumable=self._checkpoint is not None):
                arrays = self._round(grid, turn, nodes, layout, arrays, timeout, config)
            kept.end(arrays, self.threshold)
            record = _record(arrays)
            result.arrays = record
            self._evaluated(result, turn, record, evaluate_fn)
        payment.commit()
        self.payment: Payment = payment
        return result

    def _cohort(self, grid: Grid, turn: int) -> list[int]:
        nodes = self.plan.selection.cohort(list(grid.get_node_ids()), turn)
        return self._separation.admitted(nodes, turn) if self.plan.separation > 1 else nodes

    def _round(
        self, grid: Grid, turn: int, nodes: list[int], layout: Layout, arrays: dict[str, NDArray[Any]], timeout: float,
        config: str,
    ) -> dict[str, NDArray[Any]]:
        """The arrays after one round; a void round leaves them as they are."""
        self.thresholds.append(self.threshold)
        ask = Ask(
            phase="vector", plan=self.plan.text, run=self.rounds.run, turn=turn, threshold=float(self.threshold),
            layout=layout.text, model=layout.packed(arrays), config=config,
        )  # fmt: skip
        try:
            noisy = self.rounds.noisy_sum(grid, ask, nodes, timeout)
        except RoundVoid:
            self.rounds_void += 1
            return arrays
        found = mean_of(self.plan, noisy, self.threshold)
        if self.plan.adaptive is not None and found.within is not None:
            self.threshold = self.plan.adaptive.next(self.threshold, found.within)
        return self._stepped(turn, layout, arrays, found.update)

    def _stepped(
        self, turn: int, layout: Layout, arrays: dict[str, NDArray[Any]], mean: NDArray[np.float64]
    ) -> dict[str, NDArray[Any]]:
        """The inner strategy's step from the noisy mean, as one reply of weight 1."""
        moves = layout.split(mean)
        moved = {name: (array + moves[name]).astype(array.dtype) for name, array in arrays.items()}
        instruction = next(iter(self.inner.configure_train(turn, _record(arrays), ConfigRecord(), _nobody())))
        weight = MetricRecord({self.inner.weighted_by_key: 1.0})
        reply = Message(RecordDict({"arrays": _record(moved), "metrics": weight}), reply_to=instruction)
        stepped, _ = self.inner.aggregate_train(turn, [reply])
        if stepped is None:
            raise FederatedError("the inner strategy made no step of the noisy mean")
        return {name: array.numpy().astype(arrays[name].dtype) for name, array in stepped.items()}

    @staticmethod
    def _evaluated(result: Result, turn: int, arrays: ArrayRecord, evaluate: Evaluate | None) -> None:
        if evaluate is not None:
            found = evaluate(turn, arrays)
            if found is not None:
                result.evaluate_metrics_serverapp[turn] = found


def _record(arrays: dict[str, NDArray[Any]]) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def _nobody() -> Grid:
    """Stands in for a grid where the inner strategy picks nodes: the cohort is the plan's, so it gets made-up ones."""

    class Nobody:
        def get_node_ids(self) -> list[int]:
            return list(range(1, 1001))

    return cast(Grid, Nobody())
