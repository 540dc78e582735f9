"""Neural synthesizers: autoencoders, critics with makers, and PATE-GAN, small, and with a price that covers what runs.

They need `pip install 'tacit[torch]'` and rows in memory. Whatever sees rows is trained by `tacit.deep`: the sampler that
draws is the one that is priced, and noise is drawn on its lattice; PATE-GAN's teachers answer by `tacit.deep.Ensemble`.
What makes rows sees released parameters or released votes alone. A tenth of the budget measures the single columns: from
them come the number of rows, the shares of classes, and the intervals of `marginal`.

On tables of categories and bins they lose to the methods that measure marginals, at every budget that was tried
(docs/synthesis.md has the figures). They are here for comparison, and as parts for data that has no marginals.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn, synthesize
>>> rows = {"sex": ["f", "m"] * 300, "smokes": [True, False, False] * 200}
>>> declared = [CategoryColumn("sex", ("f", "m")), CategoryColumn("smokes", (True, False))]
>>> with test_mode(1):
...     made = synthesize(rows, declared, epsilon=5, delta=1e-6, method=Neural("vaegm", steps=20, width=8))
...     made.sample(3).column_names
['sex', 'smokes']
>>> made.event_.events[1].count
20

Guarantee
    Statement: `event_` is the price of everything drawn, for a person with at most `max_rows` rows who comes or goes.
    Conditions: the declared columns, the settings and the guarantee are public. The noisy number of rows sets the divisor
    of gradients and the number of teachers; the chance with which a person joins a step is fixed, so prices do not
    depend on it.
    Proved in: `tacit.deep.make_private` and `make_user_private` for learners, `tacit.deep.Ensemble` for votes, `Measuring` for columns;
    each step's price is fixed in advance, so they compose whatever earlier steps showed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import GDP, Composed, Event, Gaussian, Guarantee, ParameterError, Poisson, Repeated, Sampled, calibrate
from tacit.noise import uniform_integers
from tacit.parameters import count, positive
from tacit.synthesis.estimate import NoisyMarginal
from tacit.synthesis.measure import RELATION, gaussian_budget
from tacit.synthesis.sample import Rows, counted

if TYPE_CHECKING:
    from tacit.synthesis.networks import Cells, Learner, Maker

Kind = Literal["augm", "vaegm", "daae", "dpgan", "acgan", "dcgan"]
#: The part of the budget that measures single columns.
COLUMNS = 0.1
BATCH = 500  # made-up rows in a step of a maker
IN_MEMORY = "neural methods train on rows in memory: hand synthesize a table instead of a session"
POOL = 20_000  # made-up rows from which the marginals of a model are counted


@dataclass(frozen=True)
class Neural:
    """A network trained by DP-SGD: what kind, for how many steps, each with one part in `parts` of the people.

    `augm`, `vaegm` and `daae` are autoencoders (Chen et al. 2018; Lee et al. 2020), `dpgan`, `acgan` and `dcgan` pairs
    of a critic that learns real rows through noise and a maker that learns from the critic (Xie et al. 2018; Odena et al. 2017 with
    Beaulieu-Jones et al. 2019; Radford et al. 2016). `public` are rows that DP-AuGM sends through its autoencoder, as cell
    numbers; without them rows of independent columns, drawn from the noisy counts.
    """

    kind: Kind = "vaegm"
    steps: int = 600
    parts: int = 64
    clip: float = 1.0
    width: int = 64
    code: int = 16
    rate: float = 2e-3
    target: int | None = None
    public: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    selects = False

    def __post_init__(self) -> None:
        if self.kind not in ("augm", "vaegm", "daae", "dpgan", "acgan", "dcgan"):
            raise ParameterError(f"there is no network {self.kind!r}; there are augm, vaegm, daae, dpgan, acgan and dcgan")
        for name in ("steps", "parts", "width", "code"):
            count(name, getattr(self, name))
        positive("clip", self.clip)
        positive("rate", self.rate)

    def check(self, sizes: Sequence[int], most: int) -> None:
        """Refuse what cannot be trained, by what is declared alone."""
        if self.kind == "acgan" and self.target is None:
            raise ParameterError("ac_gan is told the class of a row: name it by target=, or use dpgan")
        if self.public is not None:
            rows = np.asarray(self.public)
            if rows.ndim != 2 or rows.shape[1] != len(sizes) or not len(rows) or rows.dtype.kind not in "iu":
                raise ParameterError(f"public rows must be whole cell numbers, a row each, in {len(sizes)} columns")
            if (rows < 0).any() or (rows >= np.asarray(sizes)).any():
                raise ParameterError("public rows name cells that there are not")

    def learning(self, noise: float) -> Event:
        """What the steps cost at this noise multiplier, whatever the rows."""
        return Repeated(Sampled(Poisson(Fraction(1, self.parts)), Gaussian(noise)), self.steps)

    def priced(self, whole: Guarantee) -> tuple[Event, float, float]:
        """The whole event, the mu of the single columns, and the noise multiplier of the steps."""
        return priced(whole, self.learning)

    def train(self, rows: NDArray[np.int64], people: NDArray[np.int64], most: int, noise: float, known: Known) -> Made:
        """A source of rows; the caller has paid."""
        return _trained(self, rows, people, most, noise, known)


@dataclass(frozen=True)
class PateGan:
    """PATE-GAN (Jordon et al. 2019): teachers on disjoint people judge made-up rows, a student learns from their noisy
    votes, and the maker from the student. Votes are few and dear: `rounds` times `questions` of them.

    A teacher has about `per_teacher` rows, by the noisy number of rows.
    """

    rounds: int = 20
    questions: int = 32
    per_teacher: int = 40
    width: int = 64
    code: int = 16
    rate: float = 2e-3
    target: int | None = None
    selects = False

    def __post_init__(self) -> None:
        for name in ("rounds", "questions", "per_teacher", "width", "code"):
            count(name, getattr(self, name))
        positive("rate", self.rate)

    def check(self, sizes: Sequence[int], most: int) -> None:
        """Everything declared can be judged."""

    def votes(self, noise: float) -> Any:
        """The noise on votes for a multiplier: two counts move by one each."""
        from tacit.deep import GaussianVotes

        return GaussianVotes(sigma=noise * math.sqrt(2) * (1 + 1e-12))

    def learning(self, noise: float) -> Event:
        """What all votes cost, whatever they are."""
        event: Event = self.votes(noise).event(self.rounds * self.questions)
        return event

    def priced(self, whole: Guarantee) -> tuple[Event, float, float]:
        """The whole event, the mu of the single columns, and the noise multiplier of the votes."""
        return priced(whole, self.learning)

    def train(self, rows: NDArray[np.int64], people: NDArray[np.int64], most: int, noise: float, known: Known) -> Made:
        """A source of rows; the caller has paid."""
        from tacit.synthesis.pate_gan import trained

        return trained(self, rows, people, noise, known)


#: The neural methods by name. `neural` is the one that did best where they were compared.
NEURAL: Mapping[str, Neural | PateGan] = {
    "neural": Neural("vaegm"), "dp_augm": Neural("augm"), "dp_vaegm": Neural("vaegm"), "daae": Neural("daae"),
    "dpgan": Neural("dpgan"), "ac_gan": Neural("acgan"), "dc_gan": Neural("dcgan", width=32), "pate_gan": PateGan(),
}  # fmt: skip


def priced(whole: Guarantee, learning: Any) -> tuple[Event, float, float]:
    """Columns get their part of the budget in mu squared; the noise of learning is the least that fits beside them.

    >>> event, mu, noise = Neural("vaegm", steps=10).priced(Guarantee(epsilon=1, delta="1e-9"))
    >>> Guarantee(epsilon=1, delta="1e-9").keeps(event, RELATION), round(mu, 4)
    (True, 0.0575)
    """
    budget, _ = gaussian_budget(whole)
    amounts = budget.floats
    squared = 2 * amounts.rho if amounts.rho is not None else (amounts.mu or 0.0) ** 2
    mu = math.sqrt(COLUMNS * squared)
    noise = calibrate(lambda z: Composed(GDP(mu), learning(z)), guarantee=whole, adjacency=RELATION)
    return Composed(GDP(mu), learning(noise)), mu, noise


# --- what comes out --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What the measured columns tell: all public."""

    sizes: tuple[int, ...]
    total: float
    columns: tuple[NDArray[np.float64], ...]  # shares of cells, at least a little each
    target: int | None

    def classes(self, rows: int, draws: np.random.Generator) -> NDArray[np.int64]:
        """So many classes by their shares; zeros without a target."""
        if self.target is None:
            return np.zeros(rows, dtype=np.int64)
        return draws.choice(self.sizes[self.target], rows, p=self.columns[self.target]).astype(np.int64)

    def independent(self, rows: int, draws: np.random.Generator) -> NDArray[np.int64]:
        """Rows of independent columns."""
        parts = [draws.choice(size, rows, p=share) for size, share in zip(self.sizes, self.columns, strict=True)]
        return np.stack(parts, axis=1).astype(np.int64)


def known_from(sizes: Sequence[int], measured: Sequence[NoisyMarginal], target: int | None) -> Known:
    """Shares of the cells of single columns, none below one part in a thousand of its column."""
    precision = [one.precision for one in measured]
    total = max(1.0, float(np.average([one.total for one in measured], weights=precision)))
    columns = []
    for one in measured:
        cells = np.maximum(one.values, total / (1000 * one.values.size))
        columns.append(cells / cells.sum())
    return Known(tuple(sizes), total, tuple(columns), target)


class Made:
    """A trained source of rows: scores of rows for classes, by networks whose parameters are released."""

    def __init__(self, cells: Cells, scores: Any, known: Known) -> None:
        self._cells, self._scores, self._known = cells, scores, known

    def rows(self, wanted: int, draws: np.random.Generator) -> Rows:
        """So many rows, one array of cell numbers a column."""
        import torch

        from tacit.synthesis.networks import seeded

        found = []
        with torch.no_grad(), seeded(draws):
            for first in range(0, max(1, wanted), POOL):
                number = min(POOL, wanted - first)
                classes = torch.from_numpy(self._known.classes(number, draws))
                told = self._cells.of_class(classes)
                scores = self._cells.of_told(self._scores(classes, draws), told)
                found.append(self._cells.rows(scores).numpy())
        table = np.concatenate(found)
        return [np.ascontiguousarray(table[:, place]).astype(np.int64) for place in range(table.shape[1])]


@dataclass
class NeuralModel:
    """A trained source as a model: rows, and marginals counted on rows that it made."""

    sizes: tuple[int, ...]
    total: float
    made: Made
    pool: Rows

    def marginal(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """Expected counts over some columns, from the pool."""
        table = counted(self.pool, self.sizes, tuple(columns))
        return np.asarray(self.total / max(1, len(self.pool[0])) * table)

    def rows(self, wanted: int | None, draws: np.random.Generator) -> Rows:
        """New rows; by default as many as are estimated."""
        return self.made.rows(max(0, round(self.total)) if wanted is None else wanted, draws)


# --- training --------------------------------------------------------------------------------------------------


def _trained(method: Neural, rows: NDArray[np.int64], people: NDArray[np.int64], most: int, noise: float, known: Known) -> Made:
    """Train the learner through noise and, after each of its steps, the maker on what the step released."""
    import torch

    from tacit.deep import PoissonBatches, make_private, make_user_private
    from tacit.synthesis.networks import Cells, Makes, seeded

    told = known.target if method.kind in ("vaegm", "acgan", "dpgan", "dcgan") else None
    cells = Cells(known.sizes, told, known.columns)
    draws = np.random.default_rng(uniform_integers(2**62))
    with seeded(draws):
        learner, copied = _learner(method, cells), _learner(method, cells)
        optimizer = torch.optim.Adam(learner.parameters(), lr=method.rate)
        expected = max(1, round(known.total / most / method.parts))
        plan: dict[str, Any] = {
            "noise_multiplier": noise, "clip": method.clip, "steps": method.steps,
            "sampler": PoissonBatches(expected, expected * method.parts),
        }  # fmt: skip
        data = torch.from_numpy(rows)
        if most == 1:
            private = make_private(learner, optimizer, data, **plan)
        else:
            # A made-up person more, always: of no people at all the shape of a batch is unknown, and an error would say so.
            data = torch.cat([data, data.new_zeros(1, data.shape[1])])
            whose = np.append(people, people.max(initial=-1) + 1)
            private = make_user_private(learner, optimizer, data, whose, most=most, **plan)
        makes = Makes(copied, _maker(method, cells), known, rate=method.rate, batch=BATCH, draws=draws)
        while private.remaining():
            for (seen,) in private.loader:
                optimizer.zero_grad()
                learner(seen).mean().backward()
                optimizer.step()
                makes.learn(learner)
        private.detach()
    public = method.public
    return Made(cells, lambda classes, draws: makes.scores(classes, _fed(public, known, len(classes), draws)), known)


def _fed(public: NDArray[np.int64] | None, known: Known, rows: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """Public rows to send through an autoencoder."""
    if public is None:
        return known.independent(rows, draws)
    return np.asarray(public, dtype=np.int64)[draws.integers(len(public), size=rows)]


def _learner(method: Neural, cells: Cells) -> Learner:
    """What sees rows."""
    from tacit.synthesis import networks as of

    if method.kind == "augm":
        return of.Autoencoder(cells, method.width, method.code)
    if method.kind == "vaegm":
        return of.Variational(cells, method.width, method.code)
    if method.kind == "daae":
        return of.Dual(cells, method.width, method.code)
    return of.Critic(cells, method.width, classes=method.kind == "acgan", columns=method.kind == "dcgan")


def _maker(method: Neural, cells: Cells) -> Maker | None:
    """What makes rows, where it is another network."""
    from tacit.synthesis import networks as of

    if method.kind in ("augm", "vaegm"):
        return None
    if method.kind == "daae":
        return of.Maker(method.code, 0, method.width, method.code, bounded=True)
    if method.kind == "dcgan":
        return of.ColumnMaker(cells, method.code, method.width)
    return of.Maker(method.code, cells.told, method.width, cells.width)
