"""The networks of neural synthesis: what is trained on rows, through noise, and what makes rows, without them.

A `Learner` is all that ever sees a row. Its `forward` takes rows as cell numbers and gives one loss for each, so that
`tacit.deep` can clip them one by one; its parameters are released after every noisy step. A `Maker` turns chance into
rows. It is trained against a copy of the learner's released parameters (`imitate`) and gets no rows at all: that it is
post-processing can be seen from what it is given.

>>> import torch
>>> rows = Cells((2, 3))
>>> learner = Variational(rows, width=8, code=2)
>>> learner(torch.tensor([[0, 2], [1, 0], [1, 1]])).shape
torch.Size([3])
>>> learner.make(torch.zeros(2, 2)).shape        # scores of two rows over 2 + 3 cells
torch.Size([2, 5])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BETAS = (0.5, 0.9)  # of Adam between adversaries, as Gulrajani et al. 2017
SURE = 1e4  # a score by which a cell is out of the question
SHARPNESS = 0.66  # of made-up cells while a maker learns (Jang et al. 2017 use .5 to 1)


class Cells:
    """Rows of columns with so many cells each, as one vector: a block of zeros and a one for each column.

    `shares` are the public shares of the cells of every column: networks learn how scores differ from theirs, so that
    they begin with independent columns.
    """

    def __init__(self, sizes: Sequence[int], target: int | None = None, shares: Sequence[Any] | None = None) -> None:
        self.sizes, self.target = tuple(sizes), target
        self.width = sum(self.sizes)
        known = None if shares is None else np.log(np.concatenate([np.asarray(part) for part in shares]))
        self.base = torch.zeros(self.width) if known is None else torch.from_numpy(known).float()

    @property
    def told(self) -> int:
        """How many numbers tell a network the class."""
        return 0 if self.target is None else self.sizes[self.target]

    def one_hot(self, rows: Tensor) -> Tensor:
        """Cell numbers as zeros and ones."""
        parts = [functional.one_hot(rows[..., place], size) for place, size in enumerate(self.sizes)]
        return torch.cat(parts, dim=-1).float()

    def shares(self, scores: Tensor) -> Tensor:
        """The logarithms of the cells' probabilities, column by column."""
        return torch.cat([functional.log_softmax(part, dim=-1) for part in torch.split(scores, list(self.sizes), dim=-1)], dim=-1)

    def drawn(self, scores: Tensor) -> Tensor:
        """One cell a column by chance, as zeros and ones whose gradient is that of a soft choice (Jang et al. 2017)."""
        parts = [functional.gumbel_softmax(part, SHARPNESS, hard=True) for part in torch.split(scores, list(self.sizes), dim=-1)]
        return torch.cat(parts, dim=-1)

    def rows(self, scores: Tensor) -> Tensor:
        """Cell numbers drawn by the probabilities of every column."""
        parts = [torch.multinomial(part.exp(), 1) for part in torch.split(self.shares(scores), list(self.sizes), dim=-1)]
        return torch.cat(parts, dim=-1)

    def of_class(self, classes: Tensor) -> Tensor:
        """What tells a network the class: zeros and ones, or nothing."""
        if self.target is None:
            return classes.new_zeros(len(classes), 0).float()
        return functional.one_hot(classes, self.told).float()

    def of_told(self, scores: Tensor, told: Tensor) -> Tensor:
        """Scores under which the target's column is the class that was told, for certain."""
        if self.target is None:
            return scores
        first = sum(self.sizes[: self.target])
        return torch.cat([scores[:, :first], (told - 1) * SURE, scores[:, first + self.told :]], dim=-1)


def layers(*widths: int, end: nn.Module | None = None) -> nn.Sequential:
    """Linear layers with a bend between them.

    >>> [type(layer).__name__ for layer in layers(3, 8, 2)]
    ['Linear', 'Tanh', 'Linear']
    """
    made: list[nn.Module] = []
    for before, after in pairwise(widths):
        made += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*made[:-1], *([] if end is None else [end]))


class Classes(Protocol):
    """Draws classes by their public shares."""

    def classes(self, rows: int, draws: np.random.Generator) -> Any: ...


class Learner(nn.Module):
    """Sees rows, and gives one loss for each; whatever it learns goes through clipping and noise."""

    def __init__(self, cells: Cells) -> None:
        super().__init__()
        self.cells = cells

    def told(self, rows: Tensor) -> Tensor:
        """The class of every row, or nothing."""
        target = self.cells.target
        return self.cells.of_class(rows[:, 0] if target is None else rows[:, target])


# --- autoencoders ----------------------------------------------------------------------------------------------


class Autoencoder(Learner):
    """A row through a narrow code and back: DP-AuGM. New rows are other rows, public ones, sent through it."""

    def __init__(self, cells: Cells, width: int, code: int) -> None:
        super().__init__(cells)
        self.encoder = layers(cells.width, width, code, end=nn.Tanh())
        self.decoder = layers(code, width, cells.width)

    def forward(self, rows: Tensor) -> Tensor:
        seen = self.cells.one_hot(rows)
        return -(seen * self.cells.shares(self.decoder(self.encoder(seen)) + self.cells.base)).sum(-1)

    def make(self, rows: Tensor) -> Tensor:
        """Scores of new rows that resemble these."""
        made: Tensor = self.decoder(self.encoder(self.cells.one_hot(rows))) + self.cells.base
        return made


class Variational(Learner):
    """A variational autoencoder, told the class where there is a target: DP-VaeGM with one network for all classes."""

    def __init__(self, cells: Cells, width: int, code: int) -> None:
        super().__init__(cells)
        self.code = code
        self.encoder = layers(cells.width, width, 2 * code)
        self.decoder = layers(code + cells.told, width, cells.width)

    def forward(self, rows: Tensor) -> Tensor:
        seen = self.cells.one_hot(rows)
        middle, spread = self.encoder(seen).chunk(2, dim=-1)
        spread = spread.clamp(-6, 6)
        chance = middle + (spread / 2).exp() * torch.randn_like(middle)
        scores = self.decoder(torch.cat([chance, self.told(rows)], dim=-1)) + self.cells.base
        away = (middle.square() + spread.exp() - spread - 1).sum(-1) / 2
        loss: Tensor = away - (seen * self.cells.shares(scores)).sum(-1)
        return loss

    def make(self, chance: Tensor) -> Tensor:
        """Scores of new rows from chance and, behind it, their classes."""
        made: Tensor = self.decoder(chance) + self.cells.base
        return made


# --- adversaries -----------------------------------------------------------------------------------------------


class Adversary(Learner):
    """A learner with critics. What it learns from real rows is private; what it learns from made-up rows is not, and needs
    no noise: `forward` is the one part, `on_made` the other."""

    def on_made(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        """What the critics lose on made-up rows."""
        raise NotImplementedError

    def against(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        """What the maker wants to be small: not to be taken for what it is."""
        raise NotImplementedError


def taken_for_real(scores: Tensor) -> Tensor:
    """The loss of rows that ought to look real, by a critic's scores; that of others is the same of minus the scores."""
    return functional.softplus(-scores).squeeze(-1)


class Dual(Adversary):
    """An autoencoder with a critic of its codes and a critic of its rows: DAAE, for rows instead of sequences.

    Its maker makes codes; the critics learn to tell them, and the rows they decode to, from those of real rows.
    """

    def __init__(self, cells: Cells, width: int, code: int) -> None:
        super().__init__(cells)
        self.encoder = layers(cells.width, width, code, end=nn.Tanh())
        self.decoder = layers(code, width, cells.width)
        self.inner = layers(code, width, 1)
        self.outer = layers(cells.width, width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        seen = self.cells.one_hot(rows)
        own = self.encoder(seen)
        rebuilt = -(seen * self.cells.shares(self.scores(own))).sum(-1)
        return rebuilt + taken_for_real(self.inner(own.detach())) + taken_for_real(self.outer(seen))

    def scores(self, codes: Tensor) -> Tensor:
        """Scores of rows that the codes decode to."""
        found: Tensor = self.decoder(codes) + self.cells.base
        return found

    def on_made(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        return sum(taken_for_real(-scores).mean() for scores in self._judged(made))  # type: ignore[return-value]

    def against(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        return sum(taken_for_real(scores).mean() for scores in self._judged(made))  # type: ignore[return-value]

    def _judged(self, made: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        codes, rows = made
        return self.inner(codes), self.outer(rows)


class Critic(Adversary):
    """Tells real rows from made-up ones (DPGAN); with `classes` it also tells a row's class (AC-GAN)."""

    def __init__(self, cells: Cells, width: int, *, classes: bool = False, columns: bool = False) -> None:
        super().__init__(cells)
        self.body: nn.Module = ColumnBody(cells, width) if columns else nn.Sequential(layers(cells.width, width), nn.Tanh())
        self.judge = nn.Linear(width, 1)
        self.sort = nn.Linear(width, cells.told) if classes else None

    def forward(self, rows: Tensor) -> Tensor:
        score, sorted_ = self._judged(self.cells.one_hot(rows), self.told(rows))
        return taken_for_real(score) + sorted_

    def on_made(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        score, sorted_ = self._judged(made[0], told)
        return (taken_for_real(-score) + sorted_).mean()

    def against(self, made: tuple[Tensor, ...], told: Tensor) -> Tensor:
        score, sorted_ = self._judged(made[0], told)
        return (taken_for_real(score) + sorted_).mean()

    def _judged(self, seen: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        """The score of every row, and the loss of its class where that is to be told from the other columns."""
        if self.sort is None or self.cells.target is None:
            score = self.judge(self.body(seen))
            return score, torch.zeros_like(score[:, 0])
        first = sum(self.cells.sizes[: self.cells.target])
        blank = torch.zeros_like(told)
        found = self.body(torch.cat([seen[:, :first], blank, seen[:, first + self.cells.told :]], dim=-1))
        return self.judge(found), -(functional.log_softmax(self.sort(found), dim=-1) * told).sum(-1)


class ColumnBody(nn.Module):
    """Convolutions over neighbouring columns: a DC-GAN for tables, in which rows are pictures one cell high."""

    def __init__(self, cells: Cells, width: int) -> None:
        super().__init__()
        self.cells = cells
        self.most = max(cells.sizes)
        self.near = nn.Conv1d(self.most, width, 3, padding=1)
        self.far = nn.Conv1d(width, width, 3, padding=1)
        self.last = nn.Linear(width * len(cells.sizes), width)

    def forward(self, seen: Tensor) -> Tensor:
        columns = [functional.pad(part, (0, self.most - part.shape[-1])) for part in torch.split(seen, list(self.cells.sizes), dim=-1)]
        found = functional.leaky_relu(self.near(torch.stack(columns, dim=2)), 0.2)
        return torch.tanh(self.last(functional.leaky_relu(self.far(found), 0.2).flatten(1)))


# --- makers ----------------------------------------------------------------------------------------------------


class Maker(nn.Module):
    """From chance (and a class) to scores of rows, or to codes."""

    def __init__(self, chance: int, told: int, width: int, made: int, *, bounded: bool = False) -> None:
        super().__init__()
        self.chance = chance
        self.inside = layers(chance + told, width, width, made, end=nn.Tanh() if bounded else None)

    def forward(self, told: Tensor) -> Tensor:
        """One for each row of `told`, which may have no column."""
        chance = torch.randn(len(told), self.chance)
        made: Tensor = self.inside(torch.cat([chance, told], dim=-1))
        return made


class ColumnMaker(Maker):
    """The same by convolutions over columns."""

    def __init__(self, cells: Cells, chance: int, width: int) -> None:
        super().__init__(chance, cells.told, width, width * len(cells.sizes))
        self.cells = cells
        self.near = nn.Conv1d(width, width, 3, padding=1)
        self.last = nn.Conv1d(width, max(cells.sizes), 1)

    def forward(self, told: Tensor) -> Tensor:
        found = super().forward(told)
        laid = found.reshape(len(told), found.shape[-1] // len(self.cells.sizes), len(self.cells.sizes))
        found = self.last(functional.leaky_relu(self.near(functional.leaky_relu(laid, 0.2)), 0.2))
        return torch.cat([found[:, :size, place] for place, size in enumerate(self.cells.sizes)], dim=-1)


def imitate(copy: nn.Module, released: nn.Module) -> None:
    """Give a copy the released parameters, without anything that clipping has hung on the original."""
    with torch.no_grad():
        for ours, theirs in zip(copy.parameters(), released.parameters(), strict=True):
            ours.copy_(theirs)


@contextmanager
def seeded(draws: np.random.Generator) -> Iterator[None]:
    """Torch draws from this generator's seed inside, and goes on as before outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(draws.integers(2**62)))
        yield


class Makes:
    """A maker and the public copy of a learner that it learns from; an autoencoder's copy makes rows by itself.

    It is given released parameters and shares of classes. It has no way to a row, and its chance is a stream of its own:
    how much chance the learner uses depends on how many rows there are.
    """

    def __init__(
        self, copied: Learner, maker: Maker | None, classes: Classes, *, rate: float, batch: int, draws: np.random.Generator
    ) -> None:
        self.copied, self.maker, self.classes, self.batch, self.draws = copied, maker, classes, batch, draws
        self.cells = copied.cells
        if maker is not None:
            self.judging = torch.optim.Adam(copied.parameters(), lr=rate, betas=BETAS)
            self.making = torch.optim.Adam(maker.parameters(), lr=rate, betas=BETAS)

    def learn(self, learner: nn.Module) -> None:
        """After a noisy step: critics learn from made-up rows, then the maker from the critics; all of it is public."""
        imitate(self.copied, learner)
        if self.maker is None or not isinstance(self.copied, Adversary):
            return
        with seeded(self.draws):
            told = self.cells.of_class(torch.from_numpy(self.classes.classes(self.batch, self.draws)))
            with torch.no_grad():
                made = self._made(told)
            for optimizer, loss in ((self.judging, self.copied.on_made), (self.making, self.copied.against)):
                optimizer.zero_grad()
                torch.autograd.backward(loss(made if optimizer is self.judging else self._made(told), told))
                optimizer.step()
        imitate(learner, self.copied)

    def scores(self, classes: Tensor, fed: Any) -> Tensor:
        """Scores of new rows of these classes; `fed` are public rows for an autoencoder."""
        told = self.cells.of_class(classes)
        if isinstance(self.copied, Autoencoder):
            return self.copied.make(torch.from_numpy(fed))
        if isinstance(self.copied, Variational):
            return self.copied.make(torch.cat([torch.randn(len(classes), self.copied.code), told], dim=-1))
        assert self.maker is not None
        made: Tensor = self.maker(told)
        return self.copied.scores(made) if isinstance(self.copied, Dual) else made + self.cells.base

    def _made(self, told: Tensor) -> tuple[Tensor, ...]:
        """Made-up rows as critics see them."""
        assert self.maker is not None
        made = self.maker(told)
        if isinstance(self.copied, Dual):
            return made, self.cells.drawn(self.copied.scores(made))
        return (self.cells.drawn(self.cells.of_told(made + self.cells.base, told)),)
