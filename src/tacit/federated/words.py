"""Words that many clients have, and places where many are: a trie that is searched level by level, one answer a client.

Every client draws one of the levels by itself and answers for the beginning of its word of that length only. So a client
answers once in the whole search, and the search costs what random check-ins do. Beginnings whose noisy count passes a
threshold are taken further. A place is a word, too: of the quarter of a map, the quarter of that quarter, and so on.

>>> search = heavy_hitters("ab", 3, clients=3000, epsilon=8, delta=1e-6)
>>> sorted(search.found(["ab"] * 2000 + ["b"] * 1000))
['ab', 'b']
>>> places = heavy_hitters((0, 0, 1, 1), 3, clients=3000, epsilon=8, delta=1e-6)
>>> sorted(places.found([(0.9, 0.1)] * 1500 + [(0.2, 0.6)] * 1500))
[(0, 7), (4, 1)]

Guarantee
    Statement: a search, with all that is read off it, costs `search.plan.event` for one client.
    Conditions: the client's own book keeps its level, and it is drawn without a look at the word. Under distributed trust a
    client joins the secure sum of its level alone, and nothing is credited for the draw.
    Proved in: a client is in one of the sums, which one is random (`CheckIns`), and the next level's candidates are chosen
    from what was published before; its vector has one entry of 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.analytics import ClientQuestion, noisy_counts, noisy_sum, question, vector
from tacit.federated.errors import FederatedError
from tacit.federated.messages import Ask
from tacit.federated.plan import FederatedPlan
from tacit.federated.selection import CheckIns
from tacit.ledger import Account, paying
from tacit.parameters import count as whole
from tacit.parameters import number

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from tacit.federated.secure_sum.keys import Register

Floats = NDArray[np.float64]
Bounds = tuple[float, float, float, float]
END = "\0"  # of a word that is shorter than the search is deep
QUARTERS = "0123"  # left below, right below, left above, right above
DEEPEST = 26  # levels of a map: cells of a tenth of a millionth of its side


# --- on the device ---------------------------------------------------------------------------------------------


def at_level(terms: Mapping[str, Any], config: str, turn: int) -> Mapping[str, Any]:
    """The terms of a search for one of its levels, with the beginnings that the server asks for; they are public."""
    prefixes = json.loads(config).get("prefixes")
    if not isinstance(prefixes, list) or not all(isinstance(prefix, str) and len(prefix) <= turn for prefix in prefixes):
        raise FederatedError("a level of a search lists beginnings of words")
    return {**terms, "prefixes": prefixes, "level": turn}


def place_of(terms: Mapping[str, Any], value: Any) -> int:
    """Which of the listed beginnings a client's word has, -1 for none. It is total.

    >>> terms = {"prefixes": ["a", "b"], "level": 1, "bounds": None, "length": 2}
    >>> place_of(terms, "ba"), place_of(terms, "c"), place_of(terms, 7)
    (1, -1, -1)
    """
    bounds, level = terms["bounds"], int(terms["level"])
    word = value if isinstance(value, str) else ""
    if bounds is not None:
        word = quarters(value, bounds, int(terms["length"]))
    begin = word[:level] if bounds is not None else (word + END)[:level]
    return {prefix: place for place, prefix in enumerate(terms["prefixes"])}.get(begin, -1)


def quarters(point: Any, bounds: Any, depth: int) -> str:
    """The word of a point in the plane; without letters for what is no point of the map.

    >>> quarters((0.9, 0.1), (0, 0, 1, 1), 3), quarters((2.0, 0.1), (0, 0, 1, 1), 3), quarters("x", (0, 0, 1, 1), 3)
    ('111', '', '')
    """
    left, bottom, right, top = bounds
    try:
        x, y = (float(part) for part in point)
    except Exception:  # whatever a point is
        return ""
    across, up = (x - left) / (right - left), (y - bottom) / (top - bottom)
    if not (0 <= across < 1 and 0 <= up < 1):  # false for NaN, too
        return ""
    column, row = int(across * 2**depth), int(up * 2**depth)
    return "".join(QUARTERS[2 * (row >> place & 1) + (column >> place & 1)] for place in reversed(range(depth)))


def cell(word: str) -> tuple[int, int]:
    """The row and the column of a word of quarters.

    >>> cell("111"), cell("03")
    ((0, 7), (1, 1))
    """
    row = column = 0
    for letter in word:
        row, column = 2 * row + int(letter) // 2, 2 * column + int(letter) % 2
    return row, column


# --- the search ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordSearch:
    """A search. `level` is the question of each of its levels, `threshold` the noisy count that a beginning needs.

    Only the most frequent beginnings are taken further, as far as the planned vector has room. With `bounds` it is a search
    for places, and what is found is called by (row, column) in a grid of 2^length times 2^length cells over them.
    """

    alphabet: str
    length: int
    level: ClientQuestion
    threshold: float
    bounds: Bounds | None = None

    @property
    def plan(self) -> FederatedPlan:
        """The plan of all levels together."""
        return self.level.plan

    @property
    def deviation(self) -> float:
        """That of the noise in each number that is found."""
        return self.plan.deviation() * self.plan.clients * self.length

    def ask(
        self, grid: Grid, account: Account | None = None, *, window: str, timeout: float = 3600, register: Register | None = None
    ) -> dict[Any, float]:
        """Ask the clients of a Flower grid. `window` names the period, such as "2026-W47": a client answers once in it."""
        from tacit.federated.rounds import Rounds

        if not window:
            raise ParameterError('window must name the period of the question, such as "2026-W47"')
        rounds = Rounds(self.plan, run=window, register=register)

        def counted(level: int, prefixes: list[str]) -> Floats:
            nodes = self.plan.selection.cohort(list(grid.get_node_ids()), level)
            ask = Ask(phase="vector", plan=self.plan.text, run=window, turn=level, threshold=self.plan.clip,
                      config=json.dumps({"prefixes": prefixes}))  # fmt: skip
            return rounds.noisy_sum(grid, ask, nodes, timeout)

        with paying(account, self.plan.event, purpose=self.plan.name, run=window, delta=self.plan.delta):
            return self._searched(counted)

    def found(
        self, words: Iterable[Any], account: Account | None = None, *, window: str = "simulated", in_law: bool = True
    ) -> dict[Any, float]:
        """What is found among the words, or points, of clients at hand, with estimated numbers."""
        with paying(account, self.plan.event, purpose=self.plan.name, delta=self.plan.delta):
            return self._found(list(words), window, in_law)

    def _found(self, words: list[Any], window: str, in_law: bool) -> dict[Any, float]:
        rule, plan = self.plan.selection, self.plan
        assert isinstance(rule, CheckIns)
        drawn = rule.slots_of(len(words))

        def counted(level: int, prefixes: list[str]) -> Floats:
            terms = {**self.level.terms, "prefixes": prefixes, "level": level}
            own = [word for word, slot in zip(words, drawn, strict=True) if slot == level]
            if plan.trust == "distributed" and not in_law:
                vectors = (vector(terms, word, plan.size) for word in own)
                return noisy_sum(plan, vectors, window=window, turn=level, in_law=False)
            places = np.array([place_of(terms, word) for word in own], dtype=np.int64)
            return noisy_counts(plan, np.bincount(places[places >= 0], minlength=plan.size))

        return self._searched(counted)

    def _searched(self, counted: Callable[[int, list[str]], Floats]) -> dict[Any, float]:
        """The search, with a noisy count of the listed beginnings at each level."""
        letters = list(QUARTERS) if self.bounds is not None else [*self.alphabet, END]
        alive, counts = [""], dict[str, float]()
        for level in range(1, self.length + 1):
            done = [prefix for prefix in alive if prefix.endswith(END)]
            longer = [prefix + letter for prefix in alive if not prefix.endswith(END) for letter in letters]
            # The vector has the planned length at every level: a longer one would cost more than was paid.
            prefixes = [*done, *longer][: self.plan.size]
            noisy = counted(level, prefixes)[: len(prefixes)]
            counts = {prefix: float(value) for prefix, value in zip(prefixes, noisy, strict=True) if value >= self.threshold}
            alive = sorted(counts, key=counts.__getitem__, reverse=True)
            if not alive:
                return {}
        return {self._called(word): counts[word] * self.length for word in alive}

    def _called(self, word: str) -> Any:
        return word.rstrip(END) if self.bounds is None else cell(word)


def heavy_hitters(over: str | Bounds, length: int, *, sure: float = 4.0, prefixes: int = 64, **how: Any) -> WordSearch:
    """A search for words of at most `length` letters of an alphabet that many clients have, or for places on a map.

    `over` is the alphabet, or the bounds (left, bottom, right, top) of a map that is halved `length` times both ways.
    `clients` is how many there are in all; each of them answers at one level. `sure` is the threshold in deviations of the
    noise, `prefixes` how many beginnings are followed at a time. Under distributed trust a level has about clients / length
    of them, by their own draw, and `dropouts` must leave room for fewer. Under local trust use `tacit.local.find`, whose
    reports are randomised on the devices.
    """
    letters, bounds = whole("length", length), None
    if isinstance(over, str):
        if len(set(over)) != len(over) or END in over or not over:
            raise ParameterError("over must be different letters, or the bounds of a map")
        alphabet, branches = over, len(over) + 1
    else:
        left, bottom, right, top = (float(number("bounds", side)) for side in over)
        if not (left < right and bottom < top) or not math.isfinite(right - left) or not math.isfinite(top - bottom):
            raise ParameterError("bounds must be (left, bottom, right, top) with left < right and bottom < top")
        if letters > DEEPEST:
            raise ParameterError(f"a map is halved at most {DEEPEST} times, not {letters}")
        alphabet, branches, bounds = QUARTERS, len(QUARTERS), (left, bottom, right, top)
    if {"population", "selection"} & set(how):
        raise ParameterError("clients draw their level by themselves, which is the rule of choice here; leave population and selection out")
    each = max(2, whole("clients", how.pop("clients", 0)) // letters)
    terms = {"kind": "words", "length": letters, "bounds": None if bounds is None else list(bounds)}
    made = question(terms, branches * whole("prefixes", prefixes), 1.0, (),
                    {"name": "words", **how, "clients": each, "selection": CheckIns(each, slots=letters)}, rounds=letters)  # fmt: skip
    return WordSearch(alphabet, letters, made, float(sure) * made.plan.deviation() * each, bounds)
