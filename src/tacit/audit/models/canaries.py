"""Records that a training cannot hide, and what it does with them: how to choose them, how to insert them, how to read their trace.

Choose: the records farthest from all others (`outlying`), those with the largest loss or gradient (`most_loss`, `most_gradient`), or
mislabelled copies (`mislabelled`). Insert them by fair coins and audit in one run (`tacit.audit.models.one_run`).

White box, against private gradient descent: a canary whose gradient is a direction of its own, of full clipped length. An observer of every
step's noisy gradient sees, along that direction, the clipped length in the steps the canary was in, plus noise; many orthogonal canaries
are as many games in one run (Nasr et al. 2021; Steinke et al. 2023, Section 6).

>>> x = np.array([[0.0, 0.1], [0.1, 0.0], [5.0, -5.0]])
>>> outlying(x, 1).tolist()
[2]
>>> seen = np.array([[1.2, -0.1], [0.9, 0.3]])  # two steps, two canaries, in units of the clipped length
>>> np.round(gradient_scores(seen, rate=1.0, noise_multiplier=1.0), 2).tolist()
[1.1, -0.8]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator
from tacit.audit.models.independent import coin_evidence
from tacit.audit.models.signals import GRADIENT_NORM, LOSS, Floats
from tacit.noise import test_mode
from tacit.parameters import count, positive, probability

Ints = NDArray[np.int64]
WHITE_BOX = "worst case: gradient canaries in orthogonal directions, every step's noisy gradient seen"
INDEPENDENT = "sampling and noise are independent from canary to canary, as the claimed mechanism's are"


def outlying(x: Any, number: int) -> Ints:
    """The records whose nearest neighbour is farthest; the farthest first."""
    rows = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    centred = rows - rows.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares[None, :] - 2 * centred @ centred.T, 0.0)
    np.fill_diagonal(apart, np.inf)
    return _largest(apart.min(axis=1), number)


def most_loss(model: Any, records: Any, number: int) -> Ints:
    """The records with the largest loss under a model, which should have been trained on other data."""
    return _largest(-LOSS(model, records), number)


def most_gradient(model: Any, records: Any, number: int) -> Ints:
    """The records with the longest gradient under a model."""
    return _largest(-GRADIENT_NORM(model, records), number)


def _largest(values: Floats, number: int) -> Ints:
    if count("number", number) > len(values):
        raise ParameterError(f"there are {len(values)} records to choose from, not {number}")
    return np.argsort(-values, kind="stable")[:number]


def mislabelled(records: tuple[Any, Any], number: int, classes: int, coins: Generator | int | None = None) -> tuple[Any, Any]:
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


def canary_bank(number: int) -> Any:
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


def watched_steps(run: Any, seed: int | None = None) -> Floats:
    """Train a `canary_bank` that was made private (`tacit.deep.make_private(..., clip=1, loss_reduction="sum")`); what each step showed.

    Row t is the released gradient of step t times the public divisor: the noisy sum of the canaries in the batch.
    """
    import contextlib

    seen: list[Floats] = []
    with contextlib.nullcontext() if seed is None else test_mode(seed):
        while run.remaining():
            for (batch,) in run.loader:
                run.optimizer.zero_grad()
                run.model(batch).sum().backward()
                run.optimizer.step()
                seen.append(run.model.weight.grad[0].double().numpy() * float(run.sampler.divisor))
    return np.array(seen)


def audit_gradients(
    make: Callable[[Any, Any, Any], Any],
    *,
    canaries: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    seed: int | None = None,
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
