"""Choosing hyper-parameters inside the guarantee: a secret, random number of random trials, and only the best one is published.

Trying ten settings and publishing the best is not the price of one run, and composing all ten is far too much. If the number of trials is
itself random and secret, the best of them costs a small multiple of one (Liu and Talwar 2019; Papernot and Steinke 2022).

>>> from tacit.accounting import Gaussian, account
>>> def train(rate):                                    # stands for a private training run that costs Gaussian(5)
...     return {"rate": rate}
>>> price = dict(event=Gaussian(5), score_event="public")
>>> found = tune(train, [0.1, 0.3, 1.0], **price, score=lambda model: -model["rate"], trials=Trials(mean=10))
>>> found.parameters in (0.1, 0.3, 1.0)
True
>>> [round(account(event).epsilon(1e-5).upper, 2) for event in (Gaussian(5), found.event, grid_event(Gaussian(5), trials=10))]
[0.73, 1.28, 2.59]

Guarantee
    Statement: what `tune` returns costs `Selection(trial, mean, shape)`, where a trial is a run and its score together.
    Conditions: every trial costs the declared event, whatever the setting; the score comes from public data or is part of the price
    (`score_event`); the number of trials stays secret, and with it whatever tells it: the time it took, the logs, the other models.
    Proved in: Papernot and Steinke 2022, Theorems 2 and 6, sharpened in `tacit.accounting.theorems.selection`. Among equal scores the
    first trial wins: in law a tie broken by a fresh uniform number beside each output, so the order is total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from tacit.accounting import Composed, Event, ParameterError, Repeated, Selection, gamma_for
from tacit.ledger import Account, paying
from tacit.noise import bernoulli, uniform_integers
from tacit.parameters import Number, count, number, positive

BLOCK = 16  # tosses at a time
P = TypeVar("P")
M = TypeVar("M")


@dataclass(frozen=True)
class Trials:
    """The law of the number of trials: `shape` 1 geometric, 0 logarithmic, between them negative binomial, infinite Poisson.

    A Poisson number may be zero: then nothing is trained and None is published. Draws are exact.

    >>> Trials(mean=1).draw(), Trials(mean=5, shape=math.inf).draw() >= 0
    (1, True)
    """

    mean: Number
    shape: Number = 1

    def __post_init__(self) -> None:
        positive("mean", self.mean)
        if self.shape == math.inf:
            return
        if not 0 <= number("shape", self.shape) <= 1:
            raise ParameterError(f"shape must lie between 0 (logarithmic) and 1 (geometric), or be infinite (Poisson), not {self.shape}")
        if self.mean < 1:
            raise ParameterError(f"mean must be at least 1 where there is at least one trial, not {self.mean}")

    def event(self, trial: Event) -> Event:
        """What the best of so many trials costs."""
        return Selection(trial, self.mean, self.shape)

    def draw(self) -> int:
        """A number of trials. Secret: the guarantee holds only as long as it is not known."""
        if self.shape == math.inf:
            return _poisson(Fraction(self.mean))
        if self.mean == 1:
            return 1
        if self.shape == 1:
            return _geometric(1 / Fraction(self.mean))
        # The accountant prices a stop no less likely than this one; more stops, fewer trials.
        stop = Fraction(min(1.0, gamma_for(self.mean, self.shape) * (1 + 1e-12)))
        while True:
            # (1 - stop)^k times the product of (l + shape) / (l + 1) over l < k: propose by the first, keep by the second, up to a constant
            runs = _geometric(stop)
            if all(bernoulli((step + Fraction(self.shape)) / (step + 1)) for step in range(1, runs)):
                return runs


def _geometric(stop: Fraction) -> int:
    """The toss at which a coin of this chance first falls heads."""
    runs = 0
    while True:
        heads = np.flatnonzero(bernoulli(stop, size=BLOCK))
        if len(heads):
            return runs + int(heads[0]) + 1
        runs += BLOCK


def _poisson(mean: Fraction) -> int:
    """A sum of Poisson numbers of mean at most 1/2, each kept with chance (2 mean)^k / k! from a fair geometric proposal."""
    parts = math.ceil(2 * mean)
    part = mean / parts
    total = 0
    for _ in range(parts):
        while True:
            proposed = _geometric(Fraction(1, 2)) - 1
            if bernoulli((2 * part) ** proposed / math.factorial(proposed)):
                total += proposed
                break
    return total


@dataclass(frozen=True)
class Tuned(Generic[P, M]):
    """The best trial, which may be published, and what it cost. How many trials there were is not told."""

    parameters: P
    model: M
    score: float
    event: Event


def settings(space: Mapping[str, Sequence[Any]] | Iterable[P]) -> list[Any]:
    """The settings to choose from: a list as it is, or every combination of the values of named parameters. Public, fixed in advance.

    >>> settings({"lr": [0.1, 1.0], "clip": [1]})
    [{'lr': 0.1, 'clip': 1}, {'lr': 1.0, 'clip': 1}]
    """
    found: list[Any] = list(space)
    if isinstance(space, Mapping):
        found = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    if not found:
        raise ParameterError("space must hold at least one setting")
    return found


def trial_event(choices: Sequence[P], event: Event | Callable[[P], Event], score_event: Event | Literal["public"]) -> Event:
    """What one trial costs, training and score together; refused where settings cost differently.

    >>> from tacit.accounting import Gaussian
    >>> trial_event([1, 2], lambda steps: Repeated(Gaussian(5), steps), "public")
    Traceback (most recent call last):
    tacit.errors.ParameterError: the settings cost differently, and which one wins must not say what was paid...
    """
    if isinstance(event, Event):
        one = event
    else:
        one, *others = [event(choice) for choice in choices]
        if any(other != one for other in others):
            raise ParameterError(
                "the settings cost differently, and which one wins must not say what was paid. Calibrate the noise of each setting to one "
                "event, or give as event= the event of the dearest if it dominates the others at every delta"
            )
    if isinstance(score_event, Event):
        return Composed(one, score_event)
    if score_event != "public":
        raise ParameterError("score_event must be the price of one score, or 'public' if the score comes from public data alone")
    return one


def tune(
    train: Callable[[P], M], space: Mapping[str, Sequence[Any]] | Iterable[P], *,
    event: Event | Callable[[P], Event], score: Callable[[M], float],
    score_event: Event | Literal["public"], trials: Trials, account: Account | None = None,
    purpose: str = "tuning", delta: float | None = None,
) -> Tuned[P, M] | None:
    """Run `train(setting)` for a random number of settings drawn uniformly from `space`, and return the one whose score is best.

    `event` is what one run of `train` costs and `score_event` what one score costs, or "public". A score that is not a number counts as
    the worst. A run given a ledger account inside `train` would be paid for twice: give it none, and give it to `tune`.

    >>> from tacit.accounting import PureDP
    >>> best = tune(lambda s: s["k"], {"k": [1, 2]}, event=PureDP(0.1), score=float, score_event=PureDP(0.1), trials=Trials(5, shape=0))
    >>> best.event.event
    Composed(PureDP(epsilon=0.1), PureDP(epsilon=0.1))
    """
    choices: list[P] = settings(space)
    whole = trials.event(trial_event(choices, event, score_event))

    def run() -> Tuned[P, M] | None:
        best: Tuned[P, M] | None = None
        for _ in range(trials.draw()):
            setting = choices[uniform_integers(len(choices))]
            model = train(setting)
            found = _ranked(score(model))
            if best is None or found > best.score:
                best = Tuned(setting, model, found, whole)
        return best

    # a function of its own: after an error its variables, the models of a secret number of trials, are out of reach
    with paying(account, whole, purpose=purpose, delta=delta):
        return run()


def grid_event(event: Event, trials: int) -> Event:
    """What it costs to run every setting of a plain grid: all of them, and all may be published.

    >>> from tacit.accounting import Gaussian
    >>> grid_event(Gaussian(5), trials=10)
    Repeated(event=Gaussian(noise_multiplier=5), count=10)
    """
    return Repeated(event, count("trials", trials))


def tune_grid(
    train: Callable[[P], M], space: Mapping[str, Sequence[Any]] | Iterable[P], *,
    event: Event | Callable[[P], Event], score: Callable[[M], float],
    score_event: Event | Literal["public"], account: Account | None = None, purpose: str = "tuning",
    delta: float | None = None,
) -> list[Tuned[P, M]]:
    """Every setting once, best first. The price is the sum of all trials, which here may differ; each result carries the whole.

    >>> from tacit.accounting import PureDP
    >>> found = tune_grid(lambda k: k, [1, 3, 2], event=lambda k: PureDP(k), score=float, score_event="public")
    >>> [one.parameters for one in found], found[0].event
    ([3, 2, 1], Composed(PureDP(epsilon=1), PureDP(epsilon=3), PureDP(epsilon=2)))
    """
    choices: list[P] = settings(space)
    whole = Composed(*(trial_event([choice], event, score_event) for choice in choices))

    with paying(account, whole, purpose=purpose, delta=delta):
        found = [_tried(choice, train(choice), score, whole) for choice in choices]
    return sorted(found, key=lambda one: -one.score)


def _tried(choice: P, model: M, score: Callable[[M], float], whole: Event) -> Tuned[P, M]:
    return Tuned(choice, model, _ranked(score(model)), whole)


def _ranked(score: float) -> float:
    value = float(score)
    return -math.inf if math.isnan(value) else value
