"""Questions to clients: counts, sums, means, histograms, quantiles, top lists, maps and words, as one noisy sum each.

A question is a plan of one round: what a client may contribute is bounded on the device, the sum has noise, a client
answers once in each window. The same question goes to a Flower grid (`ask`) or to values at hand (`simulate`).
Contribution bounds are required: a client with a hundred songs moves a sum by a hundred, not by one.

>>> import numpy as np
>>> songs = histogram(["a", "b", "c"], max_contributions=2, clients=1000, epsilon=4, delta=1e-6, name="songs")
>>> songs.plan.clip ** 2, songs.labels
(2.000000000000004, ('a', 'b', 'c'))
>>> answer = songs.simulate([["a", "b"], ["a"]] * 500)
>>> bool(abs(answer["a"] - 1000) < 6 * answer.deviation)
True
>>> histogram(["a", "b"], max_contributions=None, clients=1000, epsilon=1, delta=1e-6)
Traceback (most recent call last):
tacit.federated.errors.FederatedError: histogram needs a bound on what one client may contribute: give max_contributions

Guarantee
    Statement: the answers to a question cost `question.plan.event` for one client.
    Conditions: `vector` bounds what a client contributes by the question alone; one participation a window, which the
    client's book keeps.
    Proved in: an indicator of at most k cells has norm at most sqrt(k) (a client's answers may all change, so it is the
    norm of its whole vector that counts); the rest is post-processing of the noisy sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated import central
from tacit.federated.device import composed
from tacit.federated.errors import FederatedError
from tacit.federated.messages import Ask
from tacit.federated.plan import FederatedPlan
from tacit.federated.plan import plan as planned
from tacit.federated.selection import CheckIns
from tacit.federated.sums import CentralSum
from tacit.ledger import Account, paying
from tacit.noise import permutation
from tacit.parameters import count as whole
from tacit.parameters import number

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from tacit.federated.secure_sum.keys import Register

Floats = NDArray[np.float64]
ROOM = 1 + 2.0**-50  # a square root is rounded; the clip must not be below the norm
MOST = 10**7  # cells


@dataclass(frozen=True)
class ClientAnswers:
    """What came back: a figure for each label, and the deviation of its noise. `values` are not clipped."""

    labels: tuple[Any, ...]
    values: Floats
    deviation: float
    plan: FederatedPlan
    note: str = ""

    def __getitem__(self, label: Any) -> float:
        return float(self.values[self.labels.index(label)])

    def top(self, number: int) -> list[tuple[Any, float]]:
        """The labels with the largest figures."""
        order = np.argsort(-self.values, kind="stable")[: whole("number", number)]
        return [(self.labels[place], float(self.values[place])) for place in order]


@dataclass(frozen=True)
class ClientQuestion:
    """A question with its plan. `labels` name the cells; `terms` say how a client's answer becomes a vector."""

    plan: FederatedPlan
    labels: tuple[Any, ...]

    @property
    def terms(self) -> Mapping[str, Any]:
        """The question as clients read it."""
        assert self.plan.question is not None
        return self.plan.question

    def ask(
        self, grid: Grid, account: Account | None = None, *, window: str, timeout: float = 3600,
        register: Register | None = None,
    ) -> ClientAnswers:
        """Ask the clients of a Flower grid. `window` names the period, such as "2026-W47": a client answers once in it."""
        from tacit.federated.rounds import Rounds

        if not window:
            raise ParameterError('window must name the period of the question, such as "2026-W47"')
        rounds = Rounds(self.plan, run=window, register=register)
        with paying(account, self.plan.event, purpose=self.plan.name, run=window, delta=self.plan.delta):
            nodes = self.plan.selection.cohort(list(grid.get_node_ids()), 1)
            ask = Ask(phase="vector", plan=self.plan.text, run=window, turn=1, threshold=self.plan.clip)
            noisy = rounds.noisy_sum(grid, ask, nodes, timeout)
        return self.answered(noisy)

    def simulate(
        self, values: Iterable[Any], account: Account | None = None, *, window: str = "simulated", in_law: bool = True
    ) -> ClientAnswers:
        """The answer for values at hand, one for each client: the clients' own numbers, added up as a server does.

        Under distributed trust the noise is drawn once, from the law of all shares together (Skellam shares add up to a
        Skellam sum). With `in_law` False every client rounds and draws for itself, as on its device.
        """
        with paying(account, self.plan.event, purpose=self.plan.name, delta=self.plan.delta):
            noisy = self._noisy(cohort_of(self.plan, values), window, in_law)
        words = "simulated: the noise was drawn once, from the law of the sum"
        return replace(self.answered(noisy), note=words if in_law else "simulated: every client drew for itself")

    def _noisy(self, values: Iterable[Any], window: str, in_law: bool) -> Floats:
        if self.terms["kind"] == "cells" and (in_law or self.plan.trust != "distributed"):
            return noisy_counts(self.plan, self._counts(values))
        vectors = (vector(self.terms, self.own(value), self.plan.size) for value in values)
        return noisy_sum(self.plan, vectors, window=window, in_law=in_law)

    def own(self, value: Any) -> Any:
        """What a client's app answers for a value: the numbers of its cells, or the value itself."""
        return value

    def _counts(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """How many clients have each cell, after bounding what each of them contributes."""
        terms, size = self.terms, self.plan.size
        if isinstance(values, np.ndarray):
            return _cells_at_once(values, size, int(terms["contributions"]))
        total = np.zeros(size)
        for value in values:
            total += vector(terms, self.own(value), size)
        return total.astype(np.int64)

    def answered(self, noisy: Floats) -> ClientAnswers:
        """The figures from a noisy sum."""
        terms, deviation = self.terms, self.plan.deviation() * self.plan.clients
        values = np.asarray(noisy[: self.plan.size], dtype=np.float64)
        if terms["kind"] == "number":
            values, deviation = values * terms["largest"], deviation * terms["largest"]
        if terms["kind"] == "mean":
            half, middle = (terms["upper"] - terms["lower"]) / 2, (terms["upper"] + terms["lower"]) / 2
            people = max(float(values[1]), 0.1 * self.plan.clients)
            values = np.array([middle + half * float(np.clip(values[0] / people, -1, 1))])
            deviation = deviation * half * math.sqrt(2) / people
        return ClientAnswers(self.labels, values, float(deviation), self.plan)


# --- on the device ---------------------------------------------------------------------------------------------


def vector(terms: Mapping[str, Any], value: Any, size: int) -> Floats:
    """One client's vector for a question. It is total: what is not an answer counts as none.

    >>> vector({"kind": "cells", "contributions": 2}, [0, 2, 9, "x"], 4).tolist()
    [1.0, 0.0, 1.0, 0.0]
    >>> vector({"kind": "number", "lower": 0, "upper": 10, "largest": 10.0}, float("nan"), 1).tolist()
    [0.0]
    """
    found = np.zeros(size)
    try:
        if terms["kind"] == "cells":
            listed = list(value) if isinstance(value, list | tuple | set | frozenset | np.ndarray) else [value]
            cells = sorted({int(cell) for cell in listed if _is_cell(cell, size)})
            most = int(terms["contributions"])
            if len(cells) > most:  # which ones are kept is drawn on the device
                cells = [cells[place] for place in permutation(len(cells))[:most]]
            found[cells] = 1.0
        elif terms["kind"] == "sketch":
            from tacit.federated.sketches import sketched

            return sketched(terms, value, size)
        elif terms["kind"] == "words":
            from tacit.federated.words import place_of

            place = place_of(terms, value)
            if 0 <= place < size:
                found[place] = 1.0
        elif terms["kind"] == "number":
            found[0] = _between(value, terms["lower"], terms["upper"]) / terms["largest"]
        elif terms["kind"] == "mean":
            half, middle = (terms["upper"] - terms["lower"]) / 2, (terms["upper"] + terms["lower"]) / 2
            given = float(value)
            if math.isfinite(given):
                found[:] = [(_between(given, terms["lower"], terms["upper"]) - middle) / half, 1.0]
    except Exception:  # whatever a value does: that a client's answer fails would be an answer
        return np.zeros(size)
    return found


def _is_cell(cell: object, size: int) -> bool:
    return isinstance(cell, int | np.integer) and not isinstance(cell, bool) and 0 <= int(cell) < size


def _between(value: Any, lower: float, upper: float) -> float:
    given = float(value)
    return 0.0 if math.isnan(given) else min(max(given, lower), upper)


def _cells_at_once(values: NDArray[Any], size: int, contributions: int) -> NDArray[np.int64]:
    """The exact counts of an array of cells, one row a client, -1 for none; rows are bounded as on the device."""
    rows = values.reshape(len(values), -1) if values.size else values.reshape(0, 1)
    if rows.dtype.kind not in "iu":
        raise ParameterError("cells are whole numbers")
    if rows.shape[1] == 1:
        inside = rows[(rows >= 0) & (rows < size)]
        return np.bincount(inside, minlength=size)
    if rows.shape[1] > contributions:
        total = np.zeros(size)
        for row in rows:
            total += vector({"kind": "cells", "contributions": contributions}, row.tolist(), size)
        return total.astype(np.int64)
    ordered = np.sort(rows, axis=1)
    kept = (ordered >= 0) & (ordered < size)
    kept[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return np.bincount(ordered[kept], minlength=size)


def cohort_of(plan: FederatedPlan, values: Iterable[Any]) -> Any:
    """The values of the clients that take part: all of them, or those that the plan's rule draws where a sample is priced."""
    if not plan.credited:
        return values
    held = values if isinstance(values, np.ndarray) else list(values)
    chosen = plan.selection.cohort(range(len(held)), 1)
    if isinstance(plan.selection, CheckIns):
        slots = plan.selection.slots_of(len(held))
        chosen = [client for client in chosen if slots[client] == 1]
    return held[chosen] if isinstance(held, np.ndarray) else [held[client] for client in chosen]


def noisy_counts(plan: FederatedPlan, counts: NDArray[np.int64]) -> Floats:
    """Counts of clients with noise of the plan's law: every client's cells weigh the granules that they have on its lattice."""
    if plan.trust == "distributed":
        from tacit.federated.distributed import noise_in_law

        return counts + noise_in_law(plan, len(counts))
    made = CentralSum(plan, plan.clip)
    made.total[:] = counts * int(central.to_lattice(np.ones(1), plan.radius())[0])
    return made.noisy()


def noisy_sum(plan: FederatedPlan, vectors: Iterable[Floats], *, window: str, turn: int = 1, in_law: bool = True) -> Floats:
    """The sum of clients' vectors with noise of the plan's law, by the operations of the devices and of the server."""
    if plan.trust == "distributed" and not in_law:
        from tacit.federated.distributed import encoding_of, seed_of

        encoding, seed = encoding_of(plan), seed_of(plan, window, turn)
        words = np.zeros(encoding.dimension, dtype=np.uint64)
        for own in islice(vectors, plan.clients):
            words += encoding.encode(composed(plan, own, 0, plan.clip), seed)
        return encoding.decode(words & np.uint64((1 << int(encoding.bits or 0)) - 1), seed)
    if plan.trust == "distributed":
        from tacit.federated.distributed import noise_in_law

        exact = np.zeros(plan.size)
        for own in vectors:
            exact += own
        return exact + noise_in_law(plan, plan.size)
    made = CentralSum(plan, plan.clip)
    for own in vectors:
        made.total[:] += central.to_lattice(composed(plan, own, 0, plan.clip), plan.radius())
    return made.noisy()


# --- the questions ---------------------------------------------------------------------------------------------


def question(
    terms: dict[str, Any], size: int, norm: float, labels: Sequence[Any], how: dict[str, Any], rounds: int = 1
) -> ClientQuestion:
    """A question of these terms; `how` is that of `plan`."""
    if how.get("trust") in ("local", "silo"):
        raise FederatedError(code="federated-trust-planned", question=str(terms["kind"]), trust=how["trust"],
                             allowed=("central", "distributed"))  # fmt: skip
    if not 1 <= size <= MOST:
        raise ParameterError(f"a question has between 1 and {MOST} cells, not {size}")
    made = planned(size=size, clip=norm, rounds=rounds, **how)
    return ClientQuestion(replace(made, question=terms), tuple(labels))


def count(**how: Any) -> ClientQuestion:
    """How many clients say yes: a client answers True or 0 for the one cell. `how` is that of `plan`.

    >>> answer = count(clients=1000, epsilon=1, delta=1e-6).simulate([[0]] * 300 + [[]] * 700)
    >>> bool(abs(answer.values[0] - 300) < 6 * answer.deviation)
    True
    """
    return question({"kind": "cells", "contributions": 1}, 1, 1.0, ("count",), {"name": "count", **how})


def sum(lower: float, upper: float, **how: Any) -> ClientQuestion:
    """The sum of one number of each client, clamped to [lower, upper]; an absent client adds nothing.

    >>> answer = sum(0, 10, clients=1000, epsilon=4, delta=1e-6).simulate([5.0] * 1000)
    >>> bool(abs(answer.values[0] - 5000) < 6 * answer.deviation)
    True
    """
    low, high = _bounds(lower, upper)
    largest = max(abs(low), abs(high))
    terms = {"kind": "number", "lower": low, "upper": high, "largest": largest}
    return question(terms, 1, 1.0, ("sum",), {"name": "sum", **how})


def mean(lower: float, upper: float, **how: Any) -> ClientQuestion:
    """The mean of one number of each client, clamped to [lower, upper]: a noisy sum over a noisy count.

    >>> answer = mean(0, 10, clients=1000, epsilon=4, delta=1e-6).simulate([7.0] * 500 + [3.0] * 500)
    >>> bool(abs(answer.values[0] - 5) < 6 * answer.deviation)
    True
    """
    low, high = _bounds(lower, upper)
    terms = {"kind": "mean", "lower": low, "upper": high}
    return question(terms, 2, math.sqrt(2) * ROOM, ("mean",), {"name": "mean", **how})


def histogram(keys: Sequence[Any], *, max_contributions: int | None, **how: Any) -> ClientQuestion:
    """How many clients have each of some public keys; a client counts for at most `max_contributions` of them.

    A client answers with the *numbers* of its keys in the list (`question.places(keys)` gives them).
    """
    if max_contributions is None:
        raise FederatedError(code="federated-contributions", question=str(how.get("name", "histogram")))
    most = min(whole("max_contributions", max_contributions), len(keys))
    if len(set(keys)) != len(keys):
        raise ParameterError("keys must differ from each other")
    made = question({"kind": "cells", "contributions": most}, len(keys), math.sqrt(most) * ROOM, keys,
                     {"name": "histogram", **how})  # fmt: skip
    return KeyedQuestion(made.plan, made.labels)


class KeyedQuestion(ClientQuestion):
    """A question whose cells have names: values at hand may be given by name."""

    def own(self, value: Any) -> Any:
        return self.places(value)

    def places(self, value: Any) -> list[int]:
        """The numbers of a client's keys; unknown ones, and what cannot be looked up, are left out."""
        known = {label: place for place, label in enumerate(self.labels)}
        listed = value if isinstance(value, list | tuple | set | frozenset) else [value]
        return [place for place in (_looked_up(known, item) for item in listed) if place is not None]


def _looked_up(known: Mapping[Any, int], item: Any) -> int | None:
    try:
        return known.get(item)
    except Exception:  # what has no hash, or fails when it is compared
        return None


def top_k(keys: Sequence[Any], k: int, *, max_contributions: int | None, **how: Any) -> ClientQuestion:
    """The k most frequent keys, from a noisy histogram of all; `answer.top(k)` lists them.

    >>> top_k(["a"], 1, max_contributions=None, clients=10, epsilon=1, delta=1e-6)
    Traceback (most recent call last):
    tacit.federated.errors.FederatedError: top_k needs a bound on what one client may contribute: give max_contributions
    """
    whole("k", k)
    return histogram(keys, max_contributions=max_contributions, **{"name": "top_k", **how})


def heatmap(
    bounds: tuple[float, float, float, float], shape: tuple[int, int], *, max_contributions: int | None, **how: Any
) -> PlacesQuestion:
    """How many clients were in each cell of a grid over (left, bottom, right, top).

    >>> places = heatmap((0, 0, 1, 1), (2, 2), max_contributions=1, clients=1000, epsilon=4, delta=1e-6)
    >>> places.cells([(0.1, 0.9), (2.0, 0.5)])
    [2]
    """
    if max_contributions is None:
        raise FederatedError(code="federated-contributions", question="heatmap")
    left, bottom, right, top = (float(number("bounds", value)) for value in bounds)
    if not (left < right and bottom < top):
        raise ParameterError("bounds must be (left, bottom, right, top) with left < right and bottom < top")
    rows, columns = (whole("shape", side) for side in shape)
    labels = [(row, column) for row in range(rows) for column in range(columns)]
    most = min(whole("max_contributions", max_contributions), len(labels))
    made = question({"kind": "cells", "contributions": most}, len(labels), math.sqrt(most) * ROOM, labels,
                     {"name": "heatmap", **how})  # fmt: skip
    return PlacesQuestion(made.plan, made.labels, (left, bottom, right, top), (rows, columns))


@dataclass(frozen=True)
class PlacesQuestion(ClientQuestion):
    """A question about places in the plane."""

    bounds: tuple[float, float, float, float]
    shape: tuple[int, int]

    def cells(self, points: Iterable[tuple[float, float]]) -> list[int]:
        """The numbers of the cells of some points; points outside the map are left out."""
        left, bottom, right, top = self.bounds
        rows, columns = self.shape
        found = []
        for point in points:
            try:
                x, y = (float(part) for part in point)
            except Exception:  # no point of the plane
                continue
            across, up = (x - left) / (right - left), (y - bottom) / (top - bottom)
            if 0 <= across < 1 and 0 <= up < 1:
                found.append(int(up * rows) * columns + int(across * columns))
        return found

    def own(self, value: Any) -> Any:
        return self.cells(value)


def quantile(share: float, edges: Sequence[float], **how: Any) -> QuantileQuestion:
    """The value below which a share of the clients is, to the width of a cell between public edges.

    >>> middle = quantile(0.5, [0, 1, 2, 3, 4], clients=10000, epsilon=8, delta=1e-6)
    >>> round(middle.value(middle.simulate([0.5] * 2000 + [2.2] * 8000)), 1)
    2.4
    """
    if not 0 < number("share", share) < 1:
        raise ParameterError(f"share must be between 0 and 1, not {share}")
    steps = [float(number("edges", edge)) for edge in edges]
    if len(steps) < 2 or any(b <= a for a, b in pairwise(steps)):
        raise ParameterError("edges must be at least two numbers that grow")
    terms = {"kind": "cells", "contributions": 1}
    made = question(terms, len(steps) - 1, 1.0, list(pairwise(steps)), {"name": "quantile", **how})
    return QuantileQuestion(made.plan, made.labels, float(share), tuple(steps))


@dataclass(frozen=True)
class QuantileQuestion(ClientQuestion):
    """A question for a quantile, asked as a histogram."""

    share: float
    edges: tuple[float, ...]

    def cell(self, value: float) -> int:
        """The cell of a value; values outside the edges count for the cell at that end."""
        return int(np.clip(np.searchsorted(self.edges, value, side="right") - 1, 0, len(self.edges) - 2))

    def own(self, value: Any) -> Any:
        return [] if math.isnan(value) else [self.cell(value)]

    def _counts(self, values: Iterable[Any]) -> NDArray[np.int64]:
        given = np.asarray(list(values), dtype=np.float64)
        places = np.clip(np.searchsorted(self.edges, given, side="right") - 1, 0, len(self.edges) - 2)
        return super()._counts(np.where(np.isnan(given), -1, places))

    def value(self, answer: ClientAnswers) -> float:
        """The quantile from the noisy counts: negative counts count as none, and a cell is taken as even."""
        counts = np.maximum(answer.values, 0.0)
        if not counts.sum() > 0:
            return float((self.edges[0] + self.edges[-1]) / 2)
        reached = np.cumsum(counts) / counts.sum()
        place = int(np.searchsorted(reached, self.share))
        before = 0.0 if place == 0 else float(reached[place - 1])
        inside = (self.share - before) / max(float(reached[place]) - before, 1e-300)
        low, high = self.edges[place], self.edges[place + 1]
        return float(low + (high - low) * inside)


def _bounds(lower: float, upper: float) -> tuple[float, float]:
    low, high = float(number("lower", lower)), float(number("upper", upper))
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"lower and upper must be finite, with lower below upper, not {low:g} and {high:g}")
    return low, high
