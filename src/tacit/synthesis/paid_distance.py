"""The one figure about synthetic rows that may be published: how far their marginals are from the private ones, with noise.

In counts, half of |x - N q| summed over the cells of a marginal, x its private counts and q the synthetic shares, is the
number of rows that would have to move. The mean over any set of marginals changes by 1/2 when a row comes or goes, so
one Laplace figure is enough for all of them, and cheap.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn
>>> columns = [CategoryColumn("sex", ("f", "m"))]
>>> real, synthetic = {"sex": ["f", "m"] * 500}, {"sex": ["f"] * 600 + ["m"] * 400}
>>> with test_mode(1):
...     found = paid_distance(real, synthetic, columns, total=1000, epsilon=1)
>>> found.low < 100 < found.high, found.event
(True, Laplace(noise_multiplier=1))
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import Account, paying
from tacit.mechanisms import NoisySums, half_width
from tacit.parameters import count, positive
from tacit.synthesis.columns import Column, same_text
from tacit.synthesis.sample import counted
from tacit.synthesis.score import distances
from tacit.synthesis.synthesizer import Synthesizer, capped, column_of, values_of

GRANULES = 64  # of a row: expected counts are no whole numbers


@dataclass(frozen=True)
class PaidDistance:
    """The mean number of rows by which marginals are off, with an interval; `share` is of the stated number of rows."""

    rows: float
    low: float
    high: float
    total: float
    marginals: tuple[tuple[str, ...], ...]
    confidence: float
    event: Event
    private: bool

    @property
    def share(self) -> float:
        """About the mean total variation: rows over the stated number of rows."""
        return self.rows / self.total

    def __str__(self) -> str:
        marked = "" if self.private else " NOT PRIVATE: drawn in test mode"
        return (
            f"{len(self.marginals)} marginals are off by {self.rows:.1f} of {self.total:.0f} rows on average "
            f"({self.low:.1f} to {self.high:.1f} with {self.confidence:.0%} confidence){marked}"
        )


def paid_distance(
    real: Any, synthetic: Any, columns: Sequence[Column] | None = None, *, ways: int = 2,
    marginals: Sequence[Sequence[str]] | None = None, total: float | None = None,
    epsilon: Typed, relation: Adjacency | str = Adjacency.ADD_REMOVE, person: str | None = None, max_rows: int = 1,
    confidence: float = 0.95, account: Account | None = None, purpose: str = "distance of a synthetic table",
) -> PaidDistance:
    """Half the L1 distance between private and synthetic counts, mean over marginals, for a price that is booked first.

    `synthetic` is a table, or a `Synthesizer`, which knows its columns and an estimate of the number of rows; otherwise
    `columns` and `total`, a number of rows that is public or was paid for, are needed. Default: all marginals of `ways`
    columns. Nothing of the synthetic table is private, so it is not charged for.

    Guarantee
        Statement: epsilon-differential privacy for a person with at most `max_rows` rows, under the stated relation.
        Conditions: the synthetic table and `total` are public, or outputs that were paid for.
        Proved in: with whole granules of 1/64 row and expected counts rounded to them, a row more moves |x - N q|_1 of
        every marginal by at most 64 granules, hence the sum over m marginals by 64 m; `max_rows` rows by that many
        times, an exchanged person by twice. The sum is a whole number with Laplace noise of that over epsilon
        (`NoisySums`); dividing by 2 * 64 * m is post-processing.
    """
    made = synthetic if isinstance(synthetic, Synthesizer) else None
    used = list(columns or (made.columns if made is not None else ()))
    rows = total if total is not None else (made.rows_ if made is not None else None)
    if not used or rows is None:
        raise ParameterError("a table by itself needs columns= and total=, the number of rows as public or paid for")
    kind = Adjacency.parse(relation, name="relation")
    if kind is Adjacency.ZERO_OUT:
        raise ParameterError("relation must be add-remove or replace-one")
    names = [column.name for column in used]
    wanted = _marginals(names, ways, marginals)
    most = count("max_rows", max_rows)
    if most > 1 and person is None:
        raise ParameterError("max_rows above 1 needs person=, the column that says whose row it is: it is enforced")
    scale_to = float(positive("total", rows))
    Guarantee(epsilon=epsilon).positive()
    moved = GRANULES * len(wanted) * most * (2 if kind is Adjacency.REPLACE_ONE else 1)
    sums = NoisySums.of_scale("laplace", moved / exact("epsilon", epsilon), moved, adjacency=kind)
    sizes = [column.size for column in used]
    table = made.sample() if made is not None else synthetic
    other = [column.encode(values_of(column_of(table, column.name))) for column in used]
    shown = max(1, len(other[0]))
    expected = [counted(other, sizes, clique) * (scale_to / shown) for clique in wanted]
    parts = {name: column_of(real, name) for name in names}
    owner = None if person is None else column_of(real, person)
    payment = paying(account, sums.event, purpose=purpose)
    with payment:
        values = {name: values_of(part) for name, part in parts.items()}
        own = [column.encode(values[column.name]) for column in used]
        if owner is not None:
            kept = capped([same_text(one) for one in values_of(owner)], most)
            own = [cells[kept] for cells in own]
        found = int(distances([counted(own, sizes, clique) for clique in wanted], expected, granules=GRANULES).sum())
        noisy = sums.add(found)
    unit = 2 * GRANULES * len(wanted)
    wide = float(half_width([sums.spread()], "laplace", confidence)[0]) + 0.5
    listed = tuple(tuple(names[place] for place in clique) for clique in wanted)
    return PaidDistance(
        noisy / unit, (noisy - wide) / unit, (noisy + wide) / unit, scale_to, listed, confidence, sums.event, payment.private
    )


def _marginals(names: Sequence[str], ways: int, given: Sequence[Sequence[str]] | None) -> list[tuple[int, ...]]:
    if given is None:
        found = list(itertools.combinations(range(len(names)), min(count("ways", ways), len(names))))
        return found
    for name in itertools.chain(*given):
        if name not in names:
            raise ParameterError(f"there is no column {name}; there are {', '.join(names)}")
    if not given or any(not one or len(set(one)) < len(one) for one in given):
        raise ParameterError("name at least one marginal, each by at least one column, and each column once")
    return [tuple(names.index(name) for name in one) for one in given]
