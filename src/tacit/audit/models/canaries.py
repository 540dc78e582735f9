"""Records that a training cannot hide: how to choose them, how to insert them, and how to read their trace.

Choose the records farthest from all others (`outlying`), those with the largest loss or gradient (`most_loss`,
`most_gradient`), or mislabelled copies (`mislabelled`). Insert them by fair coins and audit in one run
(`tacit.audit.models.one_run`), or attack the training itself, in one of two ways.

White box, against private gradient descent (`audit_gradients`): a canary whose gradient is a direction of its own, of
full clipped length. An observer of every step's noisy gradient sees, along that direction, the clipped length in the
steps the canary was in, plus noise; many orthogonal canaries are as many games in one run (Nasr et al. 2021; Steinke et
al. 2023, Section 6).

>>> x = np.array([[0.0, 0.1], [0.1, 0.0], [5.0, -5.0]])
>>> outlying(x, 1).tolist()
[2]
>>> seen = np.array([[1.2, -0.1], [0.9, 0.3]])  # two steps, two canaries, in units of the clipped length
>>> np.round(gradient_scores(seen, rate=1.0, noise_multiplier=1.0), 2).tolist()
[1.1, -0.8]

By poisoning (`audit_poisoning`; Jagielski, Ullman and Oprea 2020): k records are added and their trace is sought over
many trainings. Under epsilon a record, k of them are indistinguishable up to k epsilon, with delta
(e^(k eps) - 1) / (e^eps - 1). So a test refutes every epsilon for which its rates break that, and a coin-flip game is won
with probability at most e^(k eps) / (1 + e^(k eps)): the printed form with 1 + e^eps below exceeds one.

>>> point = OperatingPoint(fpr=0.01, tpr=0.5, confidence=0.95)
>>> round(group_epsilon(point, records=1), 4), round(group_epsilon(point, records=4), 4)
(3.912, 0.978)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator, map_trials, spawn
from tacit.audit.models.games import Train, size_of, take, trained
from tacit.audit.models.independent import coin_evidence
from tacit.audit.models.roc import evidence_of
from tacit.audit.models.signals import GRADIENT_NORM, LOSS, Floats, Model, Records
from tacit.audit.rates import OperatingPoint
from tacit.noise import test_mode
from tacit.parameters import count, positive, probability

if TYPE_CHECKING:
    import torch

    from tacit.deep import PrivateTraining

Ints = NDArray[np.int64]
WHITE_BOX = "worst case: gradient canaries in orthogonal directions, every step's noisy gradient seen"
INDEPENDENT = "sampling and noise are independent from canary to canary, as the claimed mechanism's are"


def outlying(x: ArrayLike, number: int) -> Ints:
    """The records whose nearest neighbour is farthest; the farthest first."""
    given = np.asarray(x, dtype=np.float64)
    rows = given.reshape(len(given), -1)
    centred = rows - rows.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares[None, :] - 2 * centred @ centred.T, 0.0)
    np.fill_diagonal(apart, np.inf)
    return _largest(apart.min(axis=1), number)


def most_loss(model: Model, records: Records, number: int) -> Ints:
    """The records with the largest loss under a model, which should have been trained on other data."""
    return _largest(-LOSS(model, records), number)


def most_gradient(model: Model, records: Records, number: int) -> Ints:
    """The records with the longest gradient under a model."""
    return _largest(-GRADIENT_NORM(model, records), number)


def _largest(values: Floats, number: int) -> Ints:
    if count("number", number) > len(values):
        raise ParameterError(f"there are {len(values)} records to choose from, not {number}")
    return np.argsort(-values, kind="stable")[:number]


def mislabelled(
    records: tuple[ArrayLike, ArrayLike], number: int, classes: int, coins: Generator | int | None = None
) -> tuple[NDArray[Any], Ints]:
    """Copies of random records, each with a label that is not its own.

    >>> x, y = mislabelled((np.zeros((4, 1)), np.array([0, 1, 0, 1])), 3, 2, 1)
    >>> len(x), set(y.tolist()) <= {0, 1}
    (3, True)
    """
    draw = generator(coins)
    x, y = np.asarray(records[0]), np.asarray(records[1])
    chosen = draw.permutation(len(y))[: count("number", number)]
    turned = (y[chosen] + 1 + draw.integers(count("classes", classes, least=2) - 1, size=len(chosen))) % classes
    return x[chosen], turned


def gradient_scores(seen: Floats, *, rate: float, noise_multiplier: float) -> Floats:
    """The log-likelihood ratio of "it was in the data" for each canary, from what each step shows along its direction.

    `seen[t, i]` is the sum (not the mean) of step t along direction i over the clipped length; a canary is in a batch with probability
    `rate`, independently from step to step.
    """
    noise = float(positive("noise_multiplier", noise_multiplier))
    chance = float(probability("rate", rate))
    gain = np.clip((2 * np.asarray(seen, dtype=np.float64) - 1) / (2 * noise**2), -600.0, 600.0)
    # log(1 - q + q e^gain), for gains that overflow too
    ratio = np.where(gain > 30, gain + np.log(np.maximum(chance, 1e-300)), np.log1p(chance * np.expm1(np.minimum(gain, 30))))
    return np.asarray(ratio.sum(axis=0))


def canary_bank(number: int) -> torch.nn.Linear:
    """A torch module whose output for the whole number i is its i-th weight: the gradient of record i is the i-th unit vector.

    >>> bank = canary_bank(3)
    >>> import torch
    >>> bank(torch.tensor([1])).sum().backward()
    >>> bank.weight.grad[0].tolist()
    [0.0, 1.0, 0.0]
    """
    from tacit.deep.errors import needs

    with needs("torch", "torch"):
        import torch

    class Bank(torch.nn.Linear):
        """A linear layer on unit vectors that are never stored."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.nn.functional.one_hot(x, self.in_features).to(self.weight.dtype))

    return Bank(count("number", number), 1, bias=False)


def watched_steps(run: PrivateTraining, seed: int | None = None) -> Floats:
    """Train a `canary_bank` that was made private (`tacit.deep.make_private(..., clip=1, loss_reduction="sum")`); what each step showed.

    Row t is the released gradient of step t times the public divisor: the noisy sum of the canaries in the batch.
    """
    import torch

    seen: list[Floats] = []
    with contextlib.nullcontext() if seed is None else test_mode(seed):
        while run.remaining():
            for (batch,) in run.loader:
                run.optimizer.zero_grad()
                run.model(batch).sum().backward()
                run.optimizer.step()
                weight = run.model.weight
                assert isinstance(weight, torch.Tensor) and weight.grad is not None
                seen.append(weight.grad[0].double().numpy() * float(run.sampler.divisor))
    return np.array(seen)


def audit_gradients(
    make: Callable[[torch.nn.Module, torch.optim.Optimizer, torch.Tensor], PrivateTraining], *,
    canaries: int, delta: float = 0.0, confidence: float = 0.95, seed: int | None = None,
) -> Evidence:
    """Attack a private training white box: `canaries` inside and as many outside, each a game of its own, in one run.

    `make(model, optimizer, data)` returns a `PrivateTraining`, for instance a partial of `make_private` with everything else given; the
    clipped length must be 1 and the loss summed. The records are the numbers 0, 1, ..., and the learning rate is 0, which hides nothing:
    the observer is shown every gradient.

    >>> from tacit.deep import FullBatch, make_private
    >>> how = dict(noise_multiplier=2.0, clip=1.0, sampler=FullBatch(500), steps=4, loss_reduction="sum")
    >>> found = audit_gradients(lambda *parts: make_private(*parts, **how), canaries=500, delta=0.01, seed=1)
    >>> 0.2 < found.lower < 1.9  # mu = 1 for four steps: epsilon 1.9 at delta 0.01
    True
    """
    from tacit.deep.errors import needs

    with needs("torch", "torch"):
        import torch

    bank = canary_bank(2 * count("canaries", canaries, least=20))
    run = make(bank, torch.optim.SGD(bank.parameters(), lr=0.0), torch.arange(canaries))
    seen = watched_steps(run, seed)
    rate = float(getattr(run.sampler, "rate", 1.0))
    scores = gradient_scores(seen, rate=rate, noise_multiplier=run.noise_multiplier)
    bits = np.arange(2 * canaries) < canaries
    return coin_evidence(
        scores, bits, attack="gradient canaries, white box", game=WHITE_BOX, delta=delta, confidence=confidence, coins=False, seed=seed,
        assumptions=(INDEPENDENT,),
    )  # fmt: skip


# --- poisoning -----------------------------------------------------------------------------------------------


def group_delta(epsilon: float, delta: float, records: int) -> float:
    """The delta of `records` of them at `records` times epsilon.

    >>> group_delta(0.0, 1e-6, 3) == 3e-6, round(group_delta(1.0, 1e-6, 2) / 1e-6, 4)
    (True, 3.7183)
    """
    if epsilon == 0:
        return min(1.0, records * delta)
    grown = records * epsilon
    return min(1.0, delta * math.expm1(min(grown, 700.0)) / math.expm1(min(epsilon, 700.0)))


def group_epsilon(point: OperatingPoint, *, records: int, delta: float = 0.0) -> float:
    """The largest epsilon a record, at `delta` a record, that a test with these rates on a group refutes."""
    k = count("records", records)

    def refuted(epsilon: float) -> bool:
        return point.epsilon(group_delta(epsilon, delta, k)) > k * epsilon

    if delta == 0:
        return point.epsilon() / k
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, point.epsilon(delta) / k + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def joined(data: Records, more: Records) -> Records:
    """Two data sets of one form, one after the other.

    >>> joined((np.array([1, 2]),), (np.array([3]),))
    (array([1, 2, 3]),)
    """
    if isinstance(data, dict):
        return {name: joined(column, more[name]) for name, column in data.items()}
    if isinstance(data, tuple):
        return tuple(joined(a, b) for a, b in zip(data, more, strict=True))
    return list(data) + list(more) if isinstance(data, list) else np.concatenate([np.asarray(data), np.asarray(more)])


def backdoor(
    x: ArrayLike, y: int, *, records: int, scale: float = 3.0, column: int | None = None
) -> tuple[Floats, Ints]:
    """Poison for a classifier: `records` copies of one far point with a label that nothing else supports.

    The point lies along the direction in which the given inputs vary least (ClipBKD's choice: little else pulls on the weights there), or
    along one column. Its length is `scale` times the mean length of the inputs.

    >>> inputs = np.array([[1.0, 0.0], [-1.0, 0.1], [2.0, 0.0]])
    >>> poison, labels = backdoor(inputs, 1, records=2)
    >>> bool(abs(poison[0][1]) > abs(poison[0][0])), labels.tolist()
    (True, [1, 1])
    """
    inputs = np.asarray(x, dtype=np.float64)
    width = inputs.shape[1]
    direction = np.linalg.svd(inputs, full_matrices=True)[2][-1] if column is None else np.eye(width)[column]
    length = scale * float(np.mean(np.linalg.norm(inputs, axis=1)))
    return np.tile(length * direction, (count("records", records), 1)), np.full(records, y)


def audit_poisoning(
    train: Train, data: Records, poison: Records, statistic: Callable[[Model, Records], float], *, trials: int,
    delta: float = 0.0, confidence: float = 0.95, seed: int | None = None, workers: int = 1, progress: bool = False,
) -> Evidence:
    """Train `trials` times, half of them with the poison; `statistic(model, poison)` should be higher where it is in.

    The bound is on epsilon for one record, by group privacy, with the number of poisoned records as the size of the group.

    >>> from tacit.audit.experiment import generator
    >>> total = lambda rows, seed: rows.sum() + generator(seed).laplace(0, 1)  # epsilon 1
    >>> found = audit_poisoning(total, np.zeros(5), np.ones(2), lambda model, poison: model, trials=4000, seed=1)
    >>> 0.7 < found.lower <= 1
    True
    """
    k = size_of(poison)
    if k < 1:
        raise ParameterError("the poison must hold at least one record")
    coins = generator(seed)
    bits = coins.permutation(np.arange(count("trials", trials, least=4)) % 2 == 0)
    seeds = [None if seed is None else int(one.integers(2**62)) for one in spawn(coins, trials)]
    worlds = (data, joined(data, poison))

    def one(play: tuple[bool, int | None]) -> float:
        return float(statistic(trained(train, take(worlds[play[0]], np.arange(size_of(worlds[play[0]]))), play[1]), poison))

    plays = list(zip((bool(bit) for bit in bits), seeds, strict=True))
    scores = map_trials(one, plays, workers=workers, progress=progress, what="poisoned trainings")
    game = f"worst case: fixed data with and without {k} poisoned records, training fresh"
    found = evidence_of(scores, bits, attack="poisoning", game=game, delta=min(1.0, k * delta), confidence=confidence, seed=seed)
    lower = 0.0 if found.point is None else group_epsilon(found.point, records=k, delta=delta)
    return Evidence(
        "poisoning", game, lower, float(delta), float(confidence), trials, details={"records": k, "group": found.lower, **found.details}
    )
