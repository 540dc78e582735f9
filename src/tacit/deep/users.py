"""Training that protects people, not rows: a user's records are capped, and come and go together.

Two ways. *By user*: a step draws users, averages the gradients of each user's records, clips that average, adds noise. *By example*: a
step draws records as usual, and the price is that of a group as large as the cap. Which needs less noise for the same work depends on the
plan, and is computed (`compare`), after Charles et al. 2024.

>>> import torch
>>> model = torch.nn.Linear(4, 2)
>>> data = torch.randn(300, 4), torch.randint(2, (300,))
>>> owner = np.arange(300) % 60                                  # 60 users with five records each
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> plan = dict(noise_multiplier=1.0, clip=1.0, sampler=PoissonBatches(expected_batch=6, size=60), steps=10)  # the sampler draws users
>>> private = make_user_private(model, optimizer, data, owner, most=3, **plan)
>>> for x, y in private.loader:
...     torch.nn.functional.cross_entropy(model(x), y).backward()
...     optimizer.step()
>>> private.steps, len(private.loader.dataset), round(private.get_epsilon(1e-5).upper, 2)
(10, 60, 2.85)

Guarantee
    Statement: by user, adding or removing everything of one user costs `private.event`; by example (`ByExample`), the same for a user
    with at most `most` records in the data, which `cap` ensures.
    Conditions: as for `make_private`, with users for records: a record belongs to one user, and its loss depends on it alone.
    Proved in: by user, the sum over users of clipped averages changes by at most the clip; by example, a batch holds a binomial number of
    the user's records, so a step is a Gaussian mechanism with a random shift (Ganesh 2024), which the accountant prices exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, TensorDataset, default_collate

from tacit.accounting import Adjacency, Event, Gaussian, Group, Guarantee, MixtureOfGaussians, ParameterError, Repeated, calibrate
from tacit.deep.clipping import Clipper, ClippingError, Rule, flat
from tacit.deep.clipping.clipper import Units
from tacit.deep.clipping.parts import CHUNK, UNIT, Blocks, Bounds, Outer, Part, floored, row_norms, weigh
from tacit.deep.clipping.passes import Pass
from tacit.deep.loader import Reads, joined
from tacit.deep.private import PrivateTraining, noise_for, planned_steps
from tacit.deep.samplers import Indices, PoissonBatches, Sampler
from tacit.noise import permutation
from tacit.parameters import Number, count, positive

# Whose records


def by_user(users: ArrayLike, most: int) -> list[Indices]:
    """The rows of each user, at most `most` of them, chosen uniformly.

    >>> [rows.tolist() for rows in by_user(["a", "b", "a"], most=5)]
    [[0, 2], [1]]
    """
    column = np.asarray(users)
    if column.ndim != 1:
        raise ParameterError(f"users must name one user a row, in one dimension, not {column.shape}")
    limit = count("most", most)
    names, place = np.unique(column, return_inverse=True)
    order = np.argsort(place, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(place, minlength=len(names)))[:-1]) if len(names) else []
    return [np.sort(part[permutation(len(part))[:limit]]) if len(part) > limit else part for part in rows]


def cap(users: ArrayLike, most: int) -> Indices:
    """The rows that are left when no user has more than `most`: what training by example may see.

    >>> len(cap([7, 7, 7, 8], most=2))
    3
    """
    parts = by_user(users, most)
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class ByExample:
    """A sampler of records priced for a whole user, who has at most `most` records in the data (see `cap`).

    >>> ByExample(PoissonBatches(expected_batch=10, size=1000), most=4).event(Gaussian(1), steps=5).size
    4
    """

    sampler: PoissonBatches
    most: int

    def __post_init__(self) -> None:
        count("most", self.most)
        if not isinstance(self.sampler, PoissonBatches):
            raise ParameterError("training by example is priced for Poisson sampling: give sampler=PoissonBatches(...)")

    @property
    def divisor(self) -> Number:
        return self.sampler.divisor

    @property
    def epoch(self) -> int:
        return self.sampler.epoch

    @property
    def adjacency(self) -> Adjacency:
        return self.sampler.adjacency

    def event(self, step: Event, steps: int) -> Event:
        return Group(self.sampler.event(step, steps), self.most)

    def batches(self, records: int) -> Iterator[Indices]:
        return self.sampler.batches(records)


class UserData(Dataset[Any]):
    """A data set of users: an item is the rows of one. Its `collate` fetches the records of a batch of users and notes whose they are."""

    def __init__(self, records: Dataset[Any], users: ArrayLike, most: int, collate: Callable[[list[Any]], Any] | None = None) -> None:
        if len(np.asarray(users)) != len(cast(Sized, records)):
            raise ParameterError("users must have one entry for each record of the data")
        self.records = records
        self.rows = by_user(users, most)
        self.sizes: list[int] = []
        self._collate = collate

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, user: int) -> Indices:
        return self.rows[user]

    def together(self, users: list[Indices]) -> bool:
        """Whether the collate function of the records lets them see each other."""
        rows = np.concatenate(users).tolist()
        return self._collate is not None and len(rows) > 1 and joined(self._collate, [self.records[row] for row in rows])

    def collate(self, users: list[Indices]) -> Any:
        self.sizes = [len(rows) for rows in users]
        rows = np.concatenate(users)
        if isinstance(self.records, TensorDataset) and self._collate is None:
            return [tensor[torch.from_numpy(rows)] for tensor in self.records.tensors]
        return (self._collate or default_collate)([self.records[row] for row in rows.tolist()])


# Clipping whole users


def user_norms(part: Part, bound: Bounds, units: Units) -> Tensor:
    """At least the norm of each user's weighted sum of gradients; its records lie one user after the other.

    For a layer that was used once, from the two Gram matrices of the batch, in double precision; otherwise from the gradients. Where a
    user's records cancel almost wholly, the norm is taken to be a small share of their norms added up.
    """
    assert units.owner is not None
    owner, users = units.owner, units.count
    masses = torch.zeros(users, dtype=torch.float64).index_add_(0, owner, bound.masses * units.own)
    if type(part) is Outer and part._kept is None and part.inputs.shape[1] == 1 and len(owner) ** 2 <= CHUNK:
        device = part.inputs.device
        inputs, outputs = part.inputs[:, 0].double(), weigh(part.outputs[:, 0].double(), units.own.to(device))
        gram = (inputs @ inputs.T) * (outputs @ outputs.T)
        mine = owner.to(device)
        rows = gram.masked_fill_(mine[:, None] != mine[None, :], 0).sum(1).cpu()  # a product by zero would keep another user's NaN
        squares = torch.zeros(users, dtype=torch.float64).index_add_(0, owner, rows).clamp_(min=0)
        lost = (len(owner) + inputs.shape[1] + outputs.shape[1] + 8) * UNIT[torch.float64]
        return floored((squares + masses.square() * lost).sqrt_(), masses, part.dtype).norms
    sizes = torch.bincount(owner, minlength=users).tolist()
    pieces, first_user, first_row = [torch.zeros(0, dtype=torch.float64)], 0, 0
    while first_user < users:
        last_user, last_row = first_user + 1, first_row + sizes[first_user]
        while last_user < users and (last_row + sizes[last_user] - first_row) * part.param.numel() <= CHUNK:
            last_row += sizes[last_user]
            last_user += 1
        gradients = part.explicit(first_row, last_row)
        own = weigh(gradients, units.own[first_row:last_row].to(gradients.device))
        places = (owner[first_row:last_row] - first_user).to(gradients.device)
        total = own.new_zeros((last_user - first_user, *own.shape[1:])).index_add_(0, places, own)
        pieces.append(row_norms(total).cpu())
        first_user, first_row = last_user, last_row
    terms = max(sizes, default=1) * (part.terms // max(len(owner), 1) + 1)
    return floored(torch.cat(pieces) + masses * Blocks(terms + 1, part.dtype).error(terms), masses, part.dtype).norms


class UserClipper(Clipper):
    """Clips the average (or the sum) of each user's gradients. The rows of a pass are users' records, one user after the other."""

    def __init__(
        self,
        model: nn.Module,
        rule: Rule,
        sizes: Callable[[], Sequence[int]],
        *,
        loss_reduction: Literal["mean", "sum"] = "mean",
        average: bool = True,
    ) -> None:
        super().__init__(model, rule, loss_reduction=loss_reduction)
        self._sizes, self._average = sizes, average
        self._now: list[int] = []
        self._later: list[list[int]] = []  # of the pieces to come

    def begin(self, args: Any) -> None:
        super().begin(args)  # settles the pass before with its own sizes
        self._now = list(self._sizes())

    def cuts(self, count: int, largest: int) -> list[tuple[int, int]]:
        """A piece holds all records of at most `largest` users."""
        ends = np.cumsum([0, *self._now]).tolist()
        turns = [*range(0, len(self._now), largest), len(self._now)]
        if not self.rehearsal:
            self._later = [self._now[first:last] for first, last in pairwise(turns)]
        return [(ends[first], ends[last]) for first, last in pairwise(turns)]

    def _units(self, book: Pass, whole: int) -> Units:
        now = self._now if book.count == whole else self._later.pop(0)
        if sum(now) != book.count or sum(self._now) != whole:
            raise ClippingError("the model saw other rows than the loader handed out; call it once on each whole batch, rows in order")
        sizes = torch.tensor(now)
        owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        own = (1 / sizes.double() if self._average else torch.ones_like(sizes, dtype=torch.float64))[owner]
        return Units(len(sizes), owner, own * (float(whole) if self.loss_reduction == "mean" else 1.0))

    def _part_norms(self, part: Part, bound: Bounds, units: Units) -> Tensor:
        return user_norms(part, bound, units)


class UserTraining(PrivateTraining):
    """A run whose records are users. Made by `make_user_private`."""

    by_place = True

    def __init__(self, model: nn.Module, optimizer: Optimizer, data: UserData, *, rule: Rule, average: bool = True, **plan: Any) -> None:
        clipper = UserClipper(model, rule, lambda: data.sizes, loss_reduction=plan.get("loss_reduction", "mean"), average=average)
        super().__init__(model, optimizer, data, rule=rule, clipper=clipper, collate=data.collate, **plan)


def make_user_private(
    model: nn.Module, optimizer: Optimizer, data: Any, users: ArrayLike, *, most: int, clip: float | Rule,
    sampler: Sampler, noise_multiplier: float | None = None, guarantee: Guarantee | str | None = None,
    epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
    mu: float | None = None, steps: int | None = None, epochs: int | None = None, average: bool = True,
    collate: Callable[[list[Any]], Any] | None = None, account: Any = None, **how: Any,
) -> UserTraining:
    """As `make_private`, for users: `users` names the user of each record, and `sampler` draws users, its sizes counted in users.

    A batch holds the records, at most `most` each, of the users drawn; the average of a user's gradients (with `average=False` their
    sum) is clipped to `clip`. Give `noise_multiplier`, or `epsilon` and `delta`, `rho`, `mu` or a `guarantee`.

    >>> make_user_private(nn.Linear(1, 1), None, torch.zeros(2, 1), [1, 2], most=1, clip=1, sampler=PoissonBatches(1, 2), steps=1)
    Traceback (most recent call last):
    tacit.errors.ParameterError: give noise_multiplier, or epsilon and delta
    """
    if isinstance(sampler, ByExample):
        raise ParameterError("ByExample samples records: use it with make_private on the rows that cap(users, most) keeps")
    planned = planned_steps(sampler, steps, epochs)
    asked = {"given": guarantee, "epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    noise, paid = noise_for(lambda z: sampler.event(Gaussian(z), planned), sampler, noise_multiplier, asked)
    if how.get("workers") or how.get("noise") is not None:
        raise ParameterError("training by user draws independent noise and loads in this process; leave out workers= and noise=")
    reads = Reads.of(data, collate=collate)
    return UserTraining(
        model,
        optimizer,
        UserData(reads.data, users, most, reads.collate),
        rule=flat(clip) if isinstance(clip, int | float) else clip,
        average=average,
        sampler=sampler,
        noise_multiplier=noise,
        steps=planned,
        account=account,
        delta=paid,
        **how,
    )


# Which way

SPARE = 1e-6  # the share of delta that many records of one user in one step may cost


@dataclass(frozen=True)
class Way:
    """One way to train: its sampler, its noise multiplier, and the noise in the averaged gradient, in units of an example's clip."""

    sampler: PoissonBatches | ByExample
    noise_multiplier: float
    noise: float


@dataclass(frozen=True)
class Comparison:
    """Both ways at the same guarantee and the same expected number of records a step."""

    by_example: Way
    by_user: Way

    @property
    def better(self) -> Literal["by_example", "by_user"]:
        """The way whose averaged gradient is less noisy."""
        return "by_example" if self.by_example.noise < self.by_user.noise else "by_user"


def capped(most: int, rate: Fraction, small: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """How many of a user's `most` records enter a step, and how likely that is; the last number stands for itself and all larger ones,
    which together have probability at most `small`, or is `most`.

    A step then differs from the true one by at most `small` in total variation, so `steps` of them cost at most steps * small * e^epsilon
    more in delta, either way round, and the price no longer grows with the cap.

    >>> capped(1000, Fraction(1, 10_000), 1e-6)[0]
    (0, 1, 2, 3, 4)
    """
    q = float(rate)
    if q >= 1:
        return (most,), (1.0,)
    logs = [math.lgamma(most + 1) - math.lgamma(j + 1) - math.lgamma(most - j + 1) + j * math.log(q) for j in range(most + 1)]
    chance = [math.exp(value + (most - j) * math.log1p(-q)) for j, value in enumerate(logs)]
    beyond = [math.fsum(chance[j:]) for j in range(most + 1)]
    last = next((j for j in range(most) if beyond[j + 1] * (1 + 1e-9) <= small), most)
    return tuple(range(last + 1)), (*chance[:last], beyond[last])


def compare(
    *, users: int, most: int, batch: int, steps: int, epsilon: float, delta: float, records: int | None = None, clip_ratio: float = 1.0
) -> Comparison:
    """The noise of training by example and by user, from public numbers alone, for about `batch` records a step.

    `records` is the declared number after capping, at most users * most. By example, noise z C / batch falls on the averaged gradient;
    by user, z clip_ratio C / (users a step), where `clip_ratio` is the clip of a user's average over that of an example: averages are
    shorter, so less than one where a user's gradients disagree.

    >>> plan = dict(users=10_000, batch=500, steps=200, epsilon=2, delta=1e-6)
    >>> compare(most=2, **plan).better, compare(most=2, clip_ratio=0.7, **plan).better
    ('by_example', 'by_user')
    """
    people, limit = count("users", users), count("most", most)
    total = people * limit if records is None else count("records", records)
    if not people <= total <= people * limit:
        raise ParameterError(f"records must lie between users ({people}) and users * most ({people * limit}), not {total}")
    if count("batch", batch) > total:
        raise ParameterError(f"batch must be at most records ({total}), not {batch}")
    drawn = max(1, round(Fraction(batch * people, total)))
    example, user = ByExample(PoissonBatches(batch, total), limit), PoissonBatches(drawn, people)
    ratio = float(positive("clip_ratio", clip_ratio))

    taken = count("steps", steps)
    few = capped(limit, Fraction(batch, total), SPARE * delta * math.exp(-epsilon) / taken)
    noisy_example = calibrate(
        lambda z: Repeated(MixtureOfGaussians(z, *few), taken), epsilon=epsilon, delta=delta * (1 - 2 * SPARE), tolerance=1e-7
    )
    noisy_user = calibrate(lambda z: user.event(Gaussian(z), taken), epsilon=epsilon, delta=delta)
    return Comparison(Way(example, noisy_example, noisy_example / batch), Way(user, noisy_user, noisy_user * ratio / drawn))
