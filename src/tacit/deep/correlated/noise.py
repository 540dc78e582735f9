"""Correlated noise as a run's `noise=`: steps are released under C^-1 Z, and the run is priced by the strategy C.

>>> from tacit.accounting import Tree
>>> from tacit.deep.ftrl import Passes
>>> passes = Passes(steps=100, size=5000)
>>> Correlated(Tree(100), passes, restart=True).event(passes, noise_multiplier=5.0, steps=250)
Composed(Repeated(event=MatrixMechanism(noise_multiplier=5.0, strategy=Tree(steps=100, reduced=False), participations=1,
separation=100, fixed=True), count=2),
MatrixMechanism(noise_multiplier=5.0, strategy=Tree(steps=50, reduced=False), participations=1, separation=100, fixed=True))

**Checkpoints.** No state of the noise is kept in a checkpoint, as for independent noise. What is kept here is worse than a seed: with it a
part of the noise already published can be subtracted, so a file that holds it would be as secret as the data; and two runs from one
file would publish two continuations of the same noise, which no event describes. A resumed run begins a new strategy at its first step,
with fresh noise, and pays for it: its event is the old run's composed with the new one's. What is lost is precision, not privacy.
For the same reason a `Correlated` object that has drawn noise belongs to its run: it refuses to price another one, to be copied and
to be pickled.

**Turns.** How far apart a record's steps are is part of the price, so no batch may be drawn and then left without its step: after a loop
broke off between a batch and its step the noise refuses to go on, and so it does when workers draw batches in advance.

Guarantee
    Statement: the steps so far cost `event`: for `Passes` and `FullBatch` one `MatrixMechanism` for each stretch between restarts; for
    `CyclicPoisson` and a banded strategy, one Poisson-sampled Gaussian for each round.
    Conditions: those of `tacit.accounting.strategies`; clipped contributions; noise multipliers relative to the clipping norm. An adaptive
    threshold's noisy count may take its share of each step: it costs 1/(2 sigma_b)^2 a participation, and the share granted is
    sensitivity^2 / (2 sigma_b)^2, which is no less, since every column of C has norm at least 1.
    Proved in: Denisov et al. 2022, Theorem 2.1; Kairouz et al. 2021 for restarts. Sampling: Choquette-Choo et al. 2023, Theorem 4, thus: a
    record of part p can take part in steps p, p + b, p + 2b, ... only, and with at most b bands those columns of C touch disjoint rows.
    Fix the coins of all others. Given what was published before, the rows of one column see the record's coin only through a shift of
    (coin) times (column) times (gradient), a Gaussian of sensitivity at most the column's norm behind a coin of rate q; rounds compose.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from tacit.accounting import (
    Adjacency,
    Composed,
    Event,
    MatrixMechanism,
    NoOp,
    ParameterError,
    Repeated,
    SquareRoot,
    Stated,
    Strategy,
    Toeplitz,
    Tree,
)
from tacit.deep.correlated.design import Error, banded, buffered
from tacit.deep.correlated.streams import Stream, past_weight, stream_of
from tacit.deep.errors import TrainingError
from tacit.deep.ftrl import CyclicPoisson, Passes, Turns
from tacit.deep.noise import GRANULE, STEPS, add_noise
from tacit.deep.samplers import FullBatch, Sampler
from tacit.mechanisms import NoisySums
from tacit.parameters import count

UNIT = NoisySums.of_scale("gaussian", STEPS, granularity=Fraction(1, STEPS))  # noise of deviation 1
KEPT = 2.0**-44  # what keeping and adding up earlier noise, below 64 deviations, loses in double precision, for each step and weight
READ = 2.0**-47  # of the largest sum: it is read, and at most 40 numbers are added to it, in double precision, for both of two neighbours
Kind = Literal["tree", "square_root", "banded", "buffered"]


class Correlated:
    """Noise of a strategy, for one run: `make_private(..., sampler=passes, noise=Correlated(SquareRoot(1000), passes))`.

    With `restart=True` the strategy begins anew, with fresh noise, whenever its steps are used up: a strategy as long as an epoch then
    sees every record once, and epochs compose. Without it the run ends with the strategy.
    """

    def __init__(self, strategy: Strategy, sampler: Sampler, *, restart: bool = False) -> None:
        if not isinstance(strategy, Strategy) or isinstance(strategy, Stated):
            raise ParameterError("strategy must be Tree, Toeplitz, SquareRoot or Buffered, of tacit.deep.correlated")
        if not isinstance(sampler, Passes | FullBatch | CyclicPoisson):
            raise ParameterError(
                f"correlated noise has no proof with the sampler {type(sampler).__name__}, whose records may take part at any time; use "
                "Passes or FullBatch, or CyclicPoisson with a banded strategy"
            )
        if isinstance(sampler, CyclicPoisson) and not (isinstance(strategy, Toeplitz) and len(strategy.coefficients) <= sampler.parts):
            raise ParameterError(
                f"CyclicPoisson needs a banded strategy, a Toeplitz one of at most parts={sampler.parts} coefficients, not "
                f"{type(strategy).__name__} of {strategy.length} steps; use banded(), or the sampler Passes"
            )
        self.strategy = strategy
        self.sampler = sampler
        self.restart = restart
        self._drawn = 0
        self._stream: Stream | None = None
        self._parameters: int | None = None
        self._turns: Turns | None = None

    def __repr__(self) -> str:
        return f"Correlated({self.strategy!r}, {self.sampler!r}{', restart=True' if self.restart else ''})"

    def __reduce__(self) -> NoReturn:
        raise TrainingError("correlated noise is not copied or pickled: two runs with one noise would uncover each other; make it anew")

    def ready(self, parameters: int) -> None:
        """Before a step: refuses to go on where the price would not hold."""
        if self._parameters is None:
            self._parameters = parameters
            if isinstance(self.sampler, Passes | CyclicPoisson) and self.sampler.turns:
                self._turns = self.sampler.turns[0]
        if self._parameters != parameters:
            raise TrainingError("this noise serves a run with other parameters; make a new Correlated for each run")
        if self._turns is not None and self._turns.handed != self._drawn + 1:
            raise TrainingError(
                "batches were drawn that got no step, so records would come around sooner than was priced: a loop broke off between a "
                "batch and its step, workers draw in advance (set workers=0), or two runs share a sampler. Begin a new run"
            )
        if self._drawn % self.strategy.length == 0:
            if self._drawn and not self.restart:
                raise TrainingError(f"the {self.strategy.length} steps of the strategy are used up; plan no more, or set restart=True")
            self._stream = stream_of(self.strategy, parameters)

    def rounding(self, parameters: int, farthest: float) -> float:
        """What floating point adds to the move of all rows together, in deviations (docs/decisions/0022)."""
        steps = self.strategy.length
        return (GRANULE + READ * farthest + steps * past_weight(self.strategy) * KEPT) * math.sqrt(steps * parameters)

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        """`times` the sums plus the noise of the next step."""
        assert self._stream is not None
        sigma = noise.spread()
        read = sums.to(torch.float64).div(sigma)
        found = self._stream.step(read, lambda row: add_noise(row, UNIT))
        self._drawn += 1
        return found.mul(sigma * times)

    def event(self, sampler: Sampler, noise_multiplier: float, steps: int) -> Event:
        """The price of the first `steps` steps."""
        if sampler is not self.sampler:  # an equal one would not do: the turns of the very object are watched
            raise ParameterError(f"this noise was made for {self.sampler!r}; give make_private the very same object")
        if self._drawn and steps != self._drawn:
            raise TrainingError(
                f"this noise has served {self._drawn} steps and is asked to price {steps}: it belongs to one run. Make a new one for "
                "each run; a resumed one begins its strategy anew"
            )
        if steps == 0:
            return NoOp()
        length = self.strategy.length
        if steps > length and not self.restart:
            raise ParameterError(f"steps must be at most the strategy's {length}, not {steps}; make a longer one, or set restart=True")
        if isinstance(sampler, CyclicPoisson):
            return sampler.event(MatrixMechanism(noise_multiplier, self.strategy).gaussian, steps)
        full, rest = divmod(steps, length)
        events: list[Event] = []
        if full:
            whole = _stretch(sampler, noise_multiplier, self.strategy)
            events.append(Repeated(whole, full) if full > 1 else whole)
        if rest:
            events.append(_stretch(sampler, noise_multiplier, self.strategy.prefix(rest)))
        return events[0] if len(events) == 1 else Composed(*events)


def _stretch(sampler: Sampler, noise_multiplier: float, strategy: Strategy) -> MatrixMechanism:
    """A stretch without restart, under the way a sampler's records take part."""
    apart = sampler.steps if isinstance(sampler, Passes) else 1
    relation = Adjacency.ZERO_OUT if sampler.adjacency is Adjacency.ZERO_OUT else Adjacency.ADD_REMOVE
    return MatrixMechanism(noise_multiplier, strategy, -(-strategy.length // apart), apart, fixed=True, adjacency=relation)


def correlated_noise(
    sampler: Sampler, *, steps: int | None = None, epochs: int | None = None, kind: Kind = "buffered", error: Error = "max", **how: Any
) -> Correlated:
    """Noise made to measure for a sampler and a plan.

    `kind`: "buffered" (`buffers=4`, nearly optimal and light), "banded" (`bands=`, at most as many as a pass has steps), "square_root"
    (keeps all earlier noise), "tree" (`reduced=True`), which begins anew with every pass.

    >>> from tacit.deep.ftrl import Passes
    >>> correlated_noise(Passes(steps=64, size=1000), epochs=2, kind="tree")
    Correlated(Tree(steps=64, reduced=True), Passes(steps=64, size=1000, adjacency=Adjacency.ADD_REMOVE), restart=True)
    """
    if (steps is None) == (epochs is None):
        raise ParameterError("give either steps= or epochs=: the strategy is made for the whole plan")
    n = count("steps", steps) if steps is not None else count("epochs", epochs) * sampler.epoch
    if isinstance(sampler, CyclicPoisson):
        if kind != "banded":
            raise ParameterError(f"kind must be 'banded' with CyclicPoisson, not {kind!r}: sampling is proved for that")
        # a round's price depends on the norm of one column alone
        return Correlated(banded(n, min(how.pop("bands", sampler.parts), sampler.parts, n), error=error, **how), sampler)
    pattern: dict[str, Any] = {"separation": min(sampler.epoch, n), "participations": -(-n // sampler.epoch), "error": error}
    match kind:
        case "tree":
            whole = Tree(min(n, sampler.epoch if sampler.epoch > 1 else n), how.pop("reduced", True))
            made = Correlated(whole, sampler, restart=n > whole.steps)
        case "square_root":
            made = Correlated(SquareRoot(n), sampler)
        case "banded":
            made = Correlated(banded(n, how.pop("bands", min(64, sampler.epoch, n)), **pattern), sampler)
        case "buffered":
            made = Correlated(buffered(n, how.pop("buffers", 4), **pattern), sampler)
        case _:
            raise ParameterError(f"kind must be 'tree', 'square_root', 'banded' or 'buffered', not {kind!r}")
    if how:
        raise ParameterError(f"{kind} noise has no parameter {', '.join(sorted(how))}")
    return made
