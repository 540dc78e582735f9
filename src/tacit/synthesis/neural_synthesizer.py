"""The door of neural synthesis: rows in memory, one payment for columns and training together, one interface.

`synthesize(..., method="dpgan")` comes here. It measures the single columns, trains the network, and returns a synthesizer
like any other: `sample`, `marginal`, `event_` and `report`.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn, Neural, synthesize
>>> rows = {"sex": ["f", "m"] * 100}
>>> with test_mode(1):
...     made = synthesize(rows, [CategoryColumn("sex", ("f", "m"))], epsilon=8, delta=1e-6, method=Neural("dpgan", steps=5))
>>> made.marginal("sex")[0].low < 100 < made.marginal("sex")[0].high, made.sample(2).num_rows
(True, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.accounting import Guarantee, ParameterError
from tacit.ledger import Account, paying
from tacit.noise import uniform_integers
from tacit.synthesis.columns import Column, same_text
from tacit.synthesis.independent import shares
from tacit.synthesis.measure import Measuring
from tacit.synthesis.neural import NEURAL, POOL, Neural, NeuralModel, PateGan, known_from
from tacit.synthesis.sample import Rows, counted
from tacit.synthesis.synthesizer import Synthesizer, capped, column_of, values_of


@dataclass(frozen=True, repr=False)
class NeuralSynthesizer(Synthesizer):
    """A trained network behind the interface of all synthesizers."""

    # It is all that `Synthesizer` asks of a model, and makes rows.
    model: NeuralModel  # type: ignore[assignment]

    def cells(self, rows: int | None, draws: np.random.Generator) -> Rows:
        return self.model.rows(rows, draws)


def train(
    rows: Any, columns: Sequence[Any], whole: Guarantee, method: str | Neural | PateGan, *, target: str | None,
    constraints: Sequence[Any], person: str | None, most: int, account: Account | None, purpose: str,
) -> Synthesizer:
    """What `synthesize` does for a neural method."""
    import tacit.deep  # noqa: F401  (says what to install, before anything is paid for)

    chosen = NEURAL[method] if isinstance(method, str) else method
    declared: tuple[Column, ...] = tuple(columns)
    names = [column.name for column in declared]
    if not all(hasattr(column, "encode") for column in declared):
        raise ParameterError("neural methods need declared columns: buy bins and categories first, or declare them")
    if constraints:
        raise ParameterError("a network keeps no rule for certain: for constraints use auto, oneshot, aim or mst")
    if target is not None:
        if target not in names:
            raise ParameterError(f"the target {target} is not among the columns")
        chosen = replace(chosen, target=names.index(target))
    sizes = tuple(column.size for column in declared)
    chosen.check(sizes, most)
    event, mu, noise = chosen.priced(whole)
    parts = {name: column_of(rows, name) for name in names}
    owner = None if person is None else column_of(rows, person)
    payment = paying(account, event, purpose=purpose, delta=whole.delta or None)
    with payment:
        values = {name: values_of(part) for name, part in parts.items()}
        whose: Sequence[Any] = range(len(values[names[0]]))
        if owner is not None:
            owners = [same_text(one) for one in values_of(owner)]
            kept = capped(owners, most).tolist()
            whose = [owners[row] for row in kept]
            values = {name: [part[row] for row in kept] for name, part in values.items()}
        cells = [column.encode(values[column.name]) for column in declared]
        measuring = Measuring(sizes, lambda clique: counted(cells, sizes, clique), Guarantee(mu=mu), max_rows=most)
        for place, share in enumerate(shares(sizes)):
            measuring.marginal((place,), measuring.sigma_for(share * measuring.whole * (1 - 1e-9)))
        known = known_from(sizes, measuring.measured, chosen.target)
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(whose))}
        people = np.array([numbers[owner] for owner in whose], dtype=np.int64)
        made = chosen.train(np.stack(cells, axis=1), people, most, noise, known)
    model = NeuralModel(sizes, known.total, made, made.rows(POOL, np.random.default_rng(uniform_integers(2**62))))
    events = (*measuring.events, chosen.learning(noise))
    return NeuralSynthesizer(declared, model, tuple(measuring.measured), event, events, payment.private)
