"""Cases and mutants of training loops: what one record does to computed sums, and what a loop may see.

The case puts a hostile record, whose large terms cancel, beside ordinary ones, and releases the sums of the real clipper with noise. Each
mutant is what the code once did.

>>> [case.name for case in cases()], [mutant.name.split(": ")[1] for mutant in mutants()][:2]
(['training, a record that cancels'], ['sums that forget', 'norms that underflow'])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Gaussian
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Case, Mutant, between, promise
from tacit.audit.selftest.training import normal
from tacit.noise import bernoulli, uniform_integers

Draws = NDArray[np.float64]
HUGE = 1e9
STEPS = 4


def cases() -> list[Case]:
    """The clipper on a Siamese layer, with and without a record whose halves are huge and nearly alike. Needs torch."""
    claim = promise(Gaussian(1), text="one step, noise 1")

    def world(hostile: bool) -> Draws:
        import torch

        from tacit.deep import Clipper, flat

        class Siamese(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(2, 1, bias=False)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                difference: torch.Tensor = self.layer(x[:, :2]) - self.layer(x[:, 2:])
                return difference

        model = Siamese()
        x = torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 9 + [[1.0, 0.0, 1 - 2.0**-10, 0.0]] * hostile)
        weights = torch.tensor([[1.0]] * 9 + [[HUGE]] * hostile)
        with Clipper(model, flat(1.0), loss_reduction="sum") as clipper:
            (model(x) * weights).sum().backward()
            collected = clipper.collect()
        found: Draws = collected.sums["layer.weight"].reshape(-1).numpy() / collected.reach
        return found

    def released(hostile: bool, n: int) -> Draws:
        moved = world(True) - world(False)
        side = moved / max(float(np.linalg.norm(moved)), 1e-300)
        found: Draws = float(world(hostile) @ side) + normal(1.0, (n,))
        return found

    worlds = [lambda n: released(False, n), lambda n: released(True, n)]
    return [between("training, a record that cancels", claim, worlds, 0.6, delta=0.05, trials=20_000)]


def forgetful(hostile: int, n: int) -> Draws:
    """Huge terms that cancel have norm zero, pass the clip whole, and a float sum forgets everyone else."""
    total = np.float32(9)
    if hostile:
        total = np.float32(np.float32(total + np.float32(HUGE)) - np.float32(HUGE))
    return np.asarray(float(total) + normal(1.0, (n,)))


def floored(hostile: int, n: int) -> Draws:
    """The norm is at least a share of the terms' norms, and sums are doubles."""
    return np.asarray(9.0 + hostile * 1e-3 + normal(1.0, (n,)))


def underflowing(hostile: int, n: int) -> Draws:
    """Squares of an input underflow, its norm is zero, and a large gradient makes it pass the clip many times over."""
    x, gradient = np.float32(2.5e-23), np.float32(5e18)
    with np.errstate(under="ignore"):
        norm = float(np.sqrt(np.float32(x * x))) * float(gradient)
    factor = min(1.0, 1e-5 / norm) if norm > 0 else 1.0
    return np.asarray(hostile * factor * float(x) * float(gradient) / 1e-5 + normal(1.0, (n,)))


def seen(hostile: int, n: int) -> Draws:
    """The norm is taken in double precision."""
    return np.asarray(hostile * 1.0 + normal(1.0, (n,)))


def skipped(target: int, n: int) -> Draws:
    """The first batch of an epoch is looked at and not stepped, the epoch begins anew, and a record is drawn a second time."""
    place = uniform_integers(STEPS, size=(n, 2))
    sums = np.zeros((n, STEPS))
    first = np.arange(n)
    sums[first, place[:, 0]] += target
    sums[first, place[:, 1]] += target
    return np.asarray((sums + normal(1.0, (n, STEPS))).sum(axis=1))


def kept(target: int, n: int) -> Draws:
    """A batch without its step comes again: every record is in one step of the epoch."""
    return np.asarray(target + normal(1.0, (n, STEPS)).sum(axis=1))


def scheduled(records: int, n: int) -> Draws:
    """The loop runs once for each piece of a batch, so the learning rate tells how many records were drawn."""
    pieces = -(-records // 2)
    return np.asarray(np.full(n, 0.9**pieces) + 0.0 * bernoulli(1 / 2, size=n))


def once(records: int, n: int) -> Draws:
    """The loop runs once a step."""
    return np.asarray(np.full(n, 0.9))


def token_mean(tokens: int, n: int) -> Draws:
    """The loss is divided by the number of tokens in the batch: one long record shortens everyone's gradient."""
    gradients = np.minimum(1.0, 20 * 5.0 / (19 * 5 + tokens)) * 19
    return np.asarray(gradients + normal(1.0, (n,)))


def fixed_length(tokens: int, n: int) -> Draws:
    """Divided by a fixed length."""
    return np.asarray(19.0 + (tokens > 0) + normal(1.0, (n,)))


def joined_backward(hostile: int, n: int) -> Draws:
    """On the way back gradients are divided by the largest of the batch: a huge one makes everyone else's nothing."""
    gradients = np.ones(40 + hostile)
    gradients[40:] = HUGE
    return np.asarray(np.minimum(gradients / gradients.max(), 1.0).sum() + normal(1.0, (n,)))


def own_backward(hostile: int, n: int) -> Draws:
    """Every record's gradient is its own, and clipped."""
    return np.asarray(40.0 + hostile + normal(1.0, (n,)))


def twice(target: int, n: int) -> Draws:
    """Two ranks hold the same record, and each adds it."""
    return np.asarray(2.0 * target + normal(1.0, (n,)))


def apart(target: int, n: int) -> Draws:
    """The second copy is left out."""
    return np.asarray(1.0 * target + normal(1.0, (n,)))


def mutants() -> list[Mutant]:
    """What loops and sums once did."""
    step = Claim.of(mu=1)
    return [
        Mutant("loop: sums that forget", forgetful, floored, (0, 1), step, 4000, bulk=True),
        Mutant("loop: norms that underflow", underflowing, seen, (0, 1), step, 4000, bulk=True),
        Mutant("loop: batches drawn and not stepped", skipped, kept, (0, 1), Claim.of(mu=0.5), 20_000, bulk=True),
        Mutant("loop: a body run a private number of times", scheduled, once, (2, 3), step, 1000, bulk=True),
        Mutant("loop: a mean over tokens", token_mean, fixed_length, (5, 100), step, 4000, bulk=True),
        Mutant("loop: a backward pass that joins records", joined_backward, own_backward, (0, 1), step, 4000, bulk=True),
        Mutant("loop: a record on two ranks", twice, apart, (0, 1), step, 8000, bulk=True),
    ]
