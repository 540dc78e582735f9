"""Cases and mutants of private training: what is run must be what is priced.

The cases of `tacit.deep` put many canaries into one run. Canary i moves coordinate i alone, by the full clipped
length, and sampling and noise are independent from coordinate to coordinate. So one run over n canaries gives n
samples of "in the data", and coordinates without a canary give as many of "not in the data". The cases of
`tacit.learning` take a whole fit for each sample, so they are few, and quick mode leaves them out.

>>> [case.name for case in cases()][:2]
['Poisson sampling', 'Poisson sampling, four steps']
>>> [case.slow for case in learning_cases()], mutants()[0].name
([True, True, True], 'training: shuffled batches priced as Poisson')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import Case, Mutant, between, promise
from tacit.noise import add_gaussian, bernoulli, rounded_gaussian, test_mode, uniform_integers

if TYPE_CHECKING:
    from tacit.deep import Sampler

Draws = NDArray[np.float64]
DELTA = 0.05
GRAIN = 1 << 20  # noise is drawn on a lattice this much finer than one canary
STEPS = 20  # of an epoch, in the mutants


def cases() -> list[Case]:
    """Every sampler, and one step and several of the training loop. Needs torch."""
    from tacit.deep import Allocation, CyclicPoisson, FullBatch, Passes, PoissonBatches

    def case(name: str, sampler: Sampler, steps: int, noise: float, floor: float, why: str = "") -> Case:
        claim = promise(sampler.event(Gaussian(noise), steps), text=f"{name}, noise {noise:g}")
        worlds = (released(inside, steps, noise) for inside in (None, sampler))
        return between(name, claim, worlds, floor, delta=DELTA, trials=60_000, why=why)

    def trained(name: str, sampler: Callable[[int], Sampler], steps: int, noise: float, floor: float) -> Case:
        claim = promise(sampler(4).event(Gaussian(noise), steps), text=f"{name}, noise {noise:g}")
        worlds = (partial(stepped, sampler, steps, noise, inside) for inside in (False, True))
        return between(name, claim, worlds, floor, delta=DELTA, trials=8000, why="few canaries fit into one run")

    spread = "the search sees the steps one by one and as a sum, not as the best mixture of them"
    placed = "the price is for an attacker who knows the record's place, and this one does not"
    return [
        case("Poisson sampling", PoissonBatches(1, 2), 1, 1.0, 0.6),
        case("Poisson sampling, four steps", PoissonBatches(1, 4), 4, 0.7, 0.5, why=spread),
        case("random allocation, four steps", Allocation(4, 4), 4, 0.7, 0.5, why=spread),
        case("passes over the data, two of two steps", Passes(2, 2), 4, 1.0, 0.3, why=placed),
        case("Poisson sampling in turns, four steps", CyclicPoisson(1, 4, parts=2), 4, 0.7, 0.3, why=placed),
        _fixed_size(),
        _by_example(),
        trained("training, full batch", FullBatch, 1, 1.0, 0.6),
        trained("training, Poisson", lambda n: PoissonBatches(n // 2, n), 1, 0.4, 0.3),
    ]


def normal(sigma: float, shape: int | tuple[int, ...]) -> Draws:
    """Gaussian noise on a fine lattice."""
    return np.asarray(rounded_gaussian(sigma * GRAIN, size=shape) / GRAIN)


def released(sampler: Sampler | None, steps: int, noise: float) -> Callable[[int], Draws]:
    """n canaries' noisy coordinates over the steps; without a sampler no canary is in the data."""

    def sample(n: int) -> Draws:
        seen = normal(noise, (n, steps))
        if sampler is not None:
            for step, batch in enumerate(islice(sampler.batches(n), steps)):
                seen[batch, step] += 1
        return seen if steps > 1 else seen[:, 0]

    return sample


def _fixed_size() -> Case:
    from tacit.deep import FixedSize

    sampler, noise = FixedSize(batch=1, size=2), 2.0

    def sample(gradient: int) -> Callable[[int], Draws]:
        def run(n: int) -> Draws:
            chosen = np.array([int(batch[0]) for batch in islice(sampler.batches(2), n)])
            return np.asarray(np.where(chosen == 0, gradient, 0) + normal(noise, n))

        return run

    other = "the price covers any other record in the batch; here the other one is zero"
    claim = promise(sampler.event(Gaussian(noise), 1), Adjacency.REPLACE_ONE, text=f"a batch of fixed size, noise {noise:g}")
    worlds = map(sample, (-1, 1))
    return between("sampling without replacement", claim, worlds, 0.3, delta=DELTA, trials=40_000, why=other)


def _by_example() -> Case:
    from tacit.deep import ByExample, PoissonBatches

    sampler, noise = ByExample(PoissonBatches(1, 2), most=2), 2.0

    def sample(inside: bool, n: int) -> Draws:
        seen = normal(noise, n)
        if inside:
            np.add.at(seen, next(iter(sampler.batches(2 * n))) // 2, 1.0)  # records 2i and 2i + 1 are those of user i
        return seen

    claim = promise(sampler.event(Gaussian(noise), 1), text=f"a user with two records, noise {noise:g}")
    group = "the price of a group covers steps that tell its two records apart"
    worlds = [partial(sample, inside) for inside in (False, True)]
    return between("users by example", claim, worlds, 0.3, delta=DELTA, trials=60_000, why=group)


def stepped(make: Callable[[int], Sampler], steps: int, noise: float, inside: bool, n: int) -> Draws:
    """The gradients that the real loop hands to the optimiser: of coordinates with a canary in the data, or of as many without one."""
    import torch

    from tacit.deep import make_private

    class Bank(torch.nn.Module):
        """The output for e_i is the i-th weight, so its gradient is e_i."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2 * n, 1, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight: torch.Tensor = self.layer(torch.nn.functional.one_hot(x, 2 * n).float())
            return weight

    class Still(torch.optim.Optimizer):
        """Takes gradients and moves nothing. torch's own optimisers load its compiler first, which takes longer than the attack."""

        def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
            super().__init__(parameters, {})

        def add_param_group(self, group: dict[str, Any]) -> None:
            self.param_groups.append({**group, "params": list(group["params"])})

        def step(self, closure: Any = None) -> Any:
            return None

    model, sampler = Bank(), make(n)
    optimizer = Still(model.parameters())
    private = make_private(
        model, optimizer, torch.arange(n), noise_multiplier=noise, clip=1.0, sampler=sampler, steps=steps, loss_reduction="sum",
        physical_batch=500,
    )  # fmt: skip
    seen = []
    while private.remaining():
        for (x,) in private.loader:
            model(x).sum().backward()
            before = private.steps
            optimizer.step()
            if private.steps > before:
                assert model.layer.weight.grad is not None
                seen.append(model.layer.weight.grad[0].double().numpy().copy() * float(sampler.divisor))
    both = np.array(seen).T
    found = both[:n] if inside else both[n:]
    return found if steps > 1 else found[:, 0]


# --- mutants -------------------------------------------------------------------------------------------------


def shuffled(target: int, n: int) -> Draws:
    """Each record is in exactly one batch of an epoch, all batches are equally long, and the price is that of independent coins."""
    # 19 others push down by one, a batch of one each; the target's batch stands out whether the target pushes or not (Chua et al. 2024).
    place = uniform_integers(STEPS, size=n)
    sums = np.full((n, STEPS), -1.0)
    sums[np.arange(n), place] = target
    found: Draws = np.sort(sums + normal(0.6, (n, STEPS)), axis=1)[:, ::-1][:, :1]
    return found


def poisson(target: int, n: int) -> Draws:
    """The same with a coin for each batch."""
    others = -bernoulli(1 / 2, size=(n, STEPS)).astype(float)
    sums = others + target * bernoulli(1 / 16, size=(n, STEPS))
    found: Draws = np.sort(sums + normal(0.6, (n, STEPS)), axis=1)[:, ::-1][:, :1]
    return found


def averaged_noise(target: int, n: int) -> Draws:
    """Noise for a batch is added to each of 16 pieces and the pieces are averaged: a sixteenth of the variance is left."""
    return np.asarray(target + normal(1.0, (n, 16)).mean(axis=1))


def one_noise(target: int, n: int) -> Draws:
    """Noise once, on the sum."""
    return np.asarray(target + normal(1.0, (n,)))


def private_divisor(records: int, n: int) -> Draws:
    """The sum is divided by the number of records that came, so the length of the noise tells that number."""
    found: Draws = np.abs(normal(1.0, (n, 1000)) / records).mean(axis=1)
    return found


def public_divisor(records: int, n: int) -> Draws:
    """Divided by the declared number."""
    found: Draws = np.abs(normal(1.0, (n, 1000)) / 10).mean(axis=1)
    return found


def reused_seed(value: int, n: int) -> Draws:
    """Two releases about the same people with one seed: their difference is exact."""
    with test_mode(7):
        first = normal(2.0, (n,))
    with test_mode(7):
        second = normal(2.0, (n,))
    # What is published: a total with the person's field and one without it.
    found: Draws = np.column_stack([value + first, second])
    return found


def fresh_seeds(value: int, n: int) -> Draws:
    """Two releases, each with noise of its own."""
    found: Draws = np.column_stack([value + normal(2.0, (n,)), normal(2.0, (n,))])
    return found


def biased_canary(target: int, n: int) -> Draws:
    """The batch always takes the newest record, and the price has the credit of a random one."""
    return np.asarray(target + normal(1.0, (n,)))


def sampled_canary(target: int, n: int) -> Draws:
    """The newest record is in the batch with probability 1/16, as priced."""
    return np.asarray(target * bernoulli(1 / 16, size=n) + normal(1.0, (n,)))


def cast_first(records: int, n: int) -> Draws:
    """The sum of clipped gradients is put into half precision before noise: one record more moves it by sixteen clips."""
    return np.asarray(float(np.float16(records)) + normal(1.0, (n,)))


def cast_last(records: int, n: int) -> Draws:
    """Sum and noise first, half precision last."""
    return (records + normal(1.0, (n,))).astype(np.float16).astype(np.float64)


WIDE, COORDINATES = 60.0, 50


def out_of_reach(released: NDArray[np.float32]) -> Draws:
    """The share, in each row, of numbers that are no quantile of 24 bits in single precision."""
    from scipy.special import ndtr

    near = np.rint(ndtr(released.astype(np.float64) / WIDE) * 2**24 - 0.5)
    found = np.zeros(released.shape, dtype=np.bool_)
    for step in (-2, -1, 0, 1, 2):
        found |= quantile(near + step) == released
    return np.asarray((~found).mean(axis=1).round(1))


def quantile(bits: Draws) -> NDArray[np.float32]:
    """Normal noise as single precision makes it of 24 bits."""
    from scipy.special import ndtri

    return np.asarray(WIDE * ndtri((bits + 0.5) * 2.0**-24), dtype=np.float32)


def float_noise(record: int, n: int) -> Draws:
    """Noise in single precision: what comes out is out of reach of noise alone."""
    bits = uniform_integers(2**24, size=(n, COORDINATES)).astype(np.float64)
    return out_of_reach(quantile(bits) + np.float32(record * COORDINATES**-0.5))


def lattice_noise(record: int, n: int) -> Draws:
    """Noise on a lattice, as training draws it: as much out of reach with the record as without."""
    sums = np.full(n * COORDINATES, record * COORDINATES**-0.5, dtype=np.float32)
    return out_of_reach(add_gaussian(sums, 4096, into=4096 / WIDE, out=WIDE / 4096).reshape(n, COORDINATES))


def mutants() -> list[Mutant]:
    """The faults of samplers and training loops."""
    epoch, sampled = Repeated(Sampled(Poisson(1 / STEPS), Gaussian(0.6)), STEPS), Sampled(Poisson(1 / 16), Gaussian(1))
    return [
        Mutant(
            "training: shuffled batches priced as Poisson", shuffled, poisson, (0, 1),
            Claim(epoch, text="20 Poisson steps at 1/20, noise 0.6"), 8000, delta=0.2, bulk=True,
        ),
        Mutant("training: noise per microbatch", averaged_noise, one_noise, (0, 1), Claim.of(mu=1), 8000, bulk=True),
        Mutant("training: private divisor", private_divisor, public_divisor, (10, 11), Claim.of(mu=1), 1000, bulk=True),
        Mutant("training: seed used twice", reused_seed, fresh_seeds, (0, 1), Claim.of(mu=1), 4000, bulk=True),
        Mutant(
            "training: sampling that does not sample", biased_canary, sampled_canary, (0, 1),
            Claim(sampled, text="one Poisson step at 1/16, noise 1"), 8000, delta=0.01, bulk=True,
        ),
        Mutant("training: sum in half precision", cast_first, cast_last, (16392, 16393), Claim.of(mu=1), 4000, bulk=True),
        Mutant(
            "training: noise in single precision", float_noise, lattice_noise, (0, 1),
            Claim(Gaussian(WIDE), text="one step, noise 60"), 2000, delta=1e-3, bulk=True,
        ),
    ]


# --- estimators ----------------------------------------------------------------------------------------------

FITS = 250
MOVED = "one person moves a fit less than its price allows: that is the price of the proof, not of the noise"


def learning_cases() -> list[Case]:
    """One for each way that the estimators of `tacit.learning` solve."""
    from tacit.learning import LinearRegression, LogisticRegression

    x = np.array([[1.0]])
    shared: dict[str, Any] = {"epsilon": 40, "delta": 1e-2, "bounds": (0, 1), "adjacency": "replace-one", "n_public": 1}

    Made = Callable[[], LogisticRegression | LinearRegression]

    def case(name: str, make: Made, labels: NDArray[np.generic], floor: float, delta: float) -> Case:
        def fit(label: NDArray[np.generic]) -> tuple[float, ...]:
            model = make().fit(x, label)
            return (*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist())

        claim = promise(make().fit(x, labels[:1]).event_, Adjacency.REPLACE_ONE, text="the event of its fit")
        worlds = [outcomes(fit, labels[i : i + 1]) for i in (0, 1)]
        return between(f"learning: {name}", claim, worlds, floor, trials=FITS, delta=delta, why=MOVED, slow=True)

    def classifier(solver: str) -> Callable[[], LogisticRegression]:
        return lambda: LogisticRegression(classes=[0, 1], solver=solver, **shared)

    return [
        case("output perturbation", classifier("output"), np.array([1, 0]), 0.0, 0.0),
        case("gradient descent", classifier("descent"), np.array([1, 0]), 0.01, 1e-2),
        case(
            "linear regression", lambda: LinearRegression(label_bounds=(0, 1), **shared), np.array([1.0, 0.0]), 0.02, 1e-2
        ),
    ]
