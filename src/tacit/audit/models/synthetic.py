"""Attacks on synthesizers: who was in the table, what the measurements give away, and what did not go through them.

`audit_membership` looks at the made-up rows only: records that the marginals of the synthetic table favour over those of
the population are called members. Such attacks are weak once there is noise, so `audit_measurements` looks at the
recorded measurements: a canary, a person in cells where there is no one else, is sought in every noisy marginal, and
the bound must come near the claim. `replay_synthesizer` freezes all noise and compares the synthesizer on tables that
differ in one person: nothing but the inputs of the noise may move, and these by no more than was paid for.

>>> from tacit.synthesis import CategoryColumn, synthesize
>>> declared = [CategoryColumn("sex", ("f", "m")), CategoryColumn("region", ("N", "S", "W"))]
>>> rows = {"sex": ["f", "m"] * 20, "region": ["N", "S", "S", "N"] * 10}
>>> def made(rows):
...     return synthesize(rows, declared, mu=1, method="oneshot")
>>> replay_synthesizer(made, rows)
[]
>>> def careless(rows):
...     listed = [CategoryColumn("sex", tuple(sorted({str(x) for x in rows["sex"]}))), declared[1]]
...     return synthesize(rows, listed or declared, mu=1, method="oneshot")
>>> {found.kind for found in replay_synthesizer(careless, rows)} >= {"shape"}
True
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.accounting import GDP, Adjacency, ApproxDP, Composed, Event, Gaussian, ParameterError, PureDP, squared_mu
from tacit.audit.claim import Claim, Verdict, held_against
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.neighbours import UNSEEN, Neighbours, joined, size, taken
from tacit.audit.mechanisms.replay import Divergence, intercepted, probe, record, replay
from tacit.audit.models.independent import coin_evidence
from tacit.audit.models.roc import Roc, roc
from tacit.calculus import Measurement, observed
from tacit.ledger import PriceError, price
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode
from tacit.parameters import count
from tacit.synthesis import Level, LevelTree, Method, NoisyMarginal, Synthesizer, SyntheticTables, counted, synthesize

Floats = NDArray[np.float64]
Cells = list[NDArray[np.int64]]
Rows = Mapping[str, Sequence[Any]]
Tables = Mapping[str, Rows]
Make = Callable[[Rows], Synthesizer]
Publish = Callable[[Rows], Any]  # a synthesizer, or one and whatever is published beside it
WHITE_BOX = "worst case: a canary in cells of its own, all other rows and every noisy marginal known"
#: What a stranger's row may hold, in every column at once.
ODD = (None, math.nan, math.inf, -1e308, 10**400, UNSEEN, "", b"\xff")
CROWD = 1000


# --- membership ------------------------------------------------------------------------------------------------


def auc_ceiling(claim: Claim, points: int = 100) -> float:
    """The largest area under the curve of a membership attack that a claim permits; never below the truth.

    It is e^eps / (1 + e^eps) for a pure claim and Phi(mu / sqrt 2) for one of mu; for others the permitted curve is added up.

    >>> [round(auc_ceiling(Claim.of(epsilon=e)), 5) for e in (0.1, 1, 10)], round(auc_ceiling(Claim.of(mu=1)), 6)
    ([0.52498, 0.73106, 0.99995], 0.76025)
    """
    event = claim.event
    if isinstance(event, PureDP):
        return 1 / (1 + math.exp(-float(event.epsilon)))
    if isinstance(event, GDP):
        return float(ndtr(float(event.mu) / math.sqrt(2)))
    if isinstance(event, ApproxDP):
        # Below and above the corner a the curve is delta + e^eps x and 1 - e^-eps (1 - x - delta); each piece is a trapezoid.
        growth, delta = math.exp(min(float(event.epsilon), 700.0)), float(event.delta)
        corner = (1 - delta) / (1 + growth)
        high = 1 - corner
        return corner * (delta + high) / 2 + (1 - corner - delta) * (high + 1) / 2 + delta
    places = np.linspace(0.0, 1.0, points + 1)[1:]  # the curve rises, so the right ends of the steps are above it
    return float(np.mean([claim.tpr(float(place)) for place in places]))


def marginal_scores(
    records: Cells, synthetic: Cells, reference: Cells, sizes: Sequence[int], pairs: Sequence[tuple[int, ...]]
) -> Floats:
    """How much more the synthetic table favours each record than the population does: log ratios added up over marginals.

    All three tables are lists of cell numbers, one array a column. Shares are smoothed by one synthetic row.

    >>> table = [np.array([0, 0, 1]), np.array([0, 1, 1])]
    >>> others = [np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])]
    >>> marginal_scores([np.array([0, 1]), np.array([0, 0])], table, others, (2, 2), [(0, 1)]).round(3).tolist()
    [0.134, -0.56]
    """
    smooth = 1 / max(1, len(synthetic[0]))
    found = np.zeros(len(records[0]))
    for pair in pairs:
        near, far = (_shares(table, sizes, pair) + smooth for table in (synthetic, reference))
        found += np.log(near / far)[tuple(records[column] for column in pair)]
    return found


def _shares(table: Cells, sizes: Sequence[int], columns: tuple[int, ...]) -> Floats:
    return counted(table, sizes, columns) / max(1, len(table[0]))


@dataclass(frozen=True)
class SyntheticMembership:
    """What the made-up rows tell about who was in the table: the curve over all runs, and what the claim permits.

    The area is an estimate: records of one run are scored on one table, so their scores are not independent.
    """

    curve: Roc
    claim: Claim
    runs: int

    @property
    def auc(self) -> float:
        """The area under the curve."""
        return self.curve.auc

    @property
    def ceiling(self) -> float:
        """The largest area that the claim permits."""
        return auc_ceiling(self.claim)

    def __str__(self) -> str:
        return f"membership from made-up rows: AUC {self.auc:.3f}, {self.runs} runs; the claim permits {self.ceiling:.3f}"


def audit_membership(
    make: Make, candidates: Rows, reference: Rows, claim: Claim | str, *, runs: int = 4, all_pairs: bool = False, seed: int = 0
) -> SyntheticMembership:
    """Make a synthetic table `runs` times, each of a fair coin's choice of the candidates, and call members by their marginals.

    `reference` are other rows of the population. The attack looks at the pairs that were measured, or at all of them.
    Every candidate comes or goes by a coin of its own, so the relation of the game is add-remove.

    >>> from tacit.synthesis import CategoryColumn, synthesize
    >>> draw = np.random.default_rng(1)
    >>> people = {name: draw.integers(0, 30, 1200).tolist() for name in ("a", "b")}
    >>> declared = [CategoryColumn(name, tuple(range(30))) for name in people]
    >>> few, many = taken(people, range(200)), taken(people, range(200, 1200))
    >>> found = audit_membership(lambda rows: synthesize(rows, declared, mu=1e4, method="mst"), few, many, "mu=10000", runs=1)
    >>> found.auc > 0.9
    True
    """
    draw = generator(seed)
    promised = claim if isinstance(claim, Claim) else Claim.of(claim)
    scores, bits = [], []
    with test_mode(seed):
        for _ in range(count("runs", runs)):
            inside = draw.random(size(candidates)) < 0.5
            made = make(taken(candidates, np.flatnonzero(inside).tolist()))
            sizes = [column.size for column in made.columns]
            rows = made.sample().to_pydict()
            known = [one.columns for one in made.measured_ if len(one.columns) == 2]
            pairs = list(itertools.combinations(range(len(sizes)), 2)) if all_pairs or not known else known
            own, made_up, others = ([c.encode(t[c.name]) for c in made.columns] for t in (candidates, rows, reference))
            scores.append(marginal_scores(own, made_up, others, sizes, list(dict.fromkeys(pairs))))
            bits.append(inside)
    return SyntheticMembership(roc(np.concatenate(scores), np.concatenate(bits)), promised, runs)


# --- measurements ----------------------------------------------------------------------------------------------


def canary_score(measured: Sequence[NoisyMarginal], base: Cells, canary: Sequence[int], rows: int) -> float:
    """The log-likelihood ratio of "the canary's rows are in" from noisy marginals, all other rows being known.

    >>> seen = [NoisyMarginal((0,), np.array([3.0, 4.0]), 2.0)]
    >>> canary_score(seen, [np.array([0, 0, 0])], [1], rows=2)  # four rows seen, none of the others': 4 * 2/4 - 2^2/8
    1.5
    """
    found = 0.0
    for one in measured:
        cell = tuple(canary[column] for column in one.columns)
        others = int(np.all([base[column] == canary[column] for column in one.columns], axis=0).sum())
        found += (rows * (float(one.values[cell]) - others) - rows * rows / 2) / one.sigma**2
    return found


def audit_measurements(
    method: str | Method, columns: Sequence[Any], rows: Rows, canary: Mapping[str, Any], *, trials: int = 400,
    max_rows: int = 1, confidence: float = 0.95, seed: int = 0, **guarantee: Any,
) -> Verdict:
    """Fit the method `trials` times, half of them with a canary of `max_rows` rows, and seek it in the recorded measurements.

    The verdict holds a bound on mu against what the method charges: its whole event, or for a method that also selects
    the part of it that its marginals cost, since what the selections alone give away is not looked at.

    >>> from tacit.synthesis import CategoryColumn, Histogram
    >>> verdict = audit_measurements(Histogram(), [CategoryColumn("x", ("a", "b"))], {"x": ["a"] * 9}, {"x": "b"}, mu=2)
    >>> verdict.broken, verdict.share > 0.5
    (False, True)
    """
    most = count("max_rows", max_rows)
    owner = {"who": [f"person {place}" for place in range(size(rows))]}
    without = {**owner, **rows}
    with_ = joined(without, {"who": ["the canary"] * most, **{name: [canary[name]] * most for name in rows}})
    draw, scores = generator(seed), []
    bits = draw.permutation(np.arange(count("trials", trials, least=40)) % 2 == 0)
    charged = GDP(0.0)
    with test_mode(seed):
        for inside in bits.tolist():
            made = synthesize(
                with_ if inside else without, columns, method=method, person="who", max_rows=most, **guarantee
            )
            base = [column.encode(rows[column.name]) for column in made.columns]
            cell = [int(column.encode([canary[column.name]])[0]) for column in made.columns]
            scores.append(canary_score(made.measured_, base, cell, most))
            charged = max(charged, _measuring_price(made), key=lambda event: float(event.mu))
    found = coin_evidence(
        scores, bits, attack="canary in the recorded measurements", game=WHITE_BOX, measure="mu",
        confidence=confidence, coins=False, seed=seed,
    )
    return held_against(Claim(charged, Adjacency.ADD_REMOVE, f"mu {float(charged.mu):.6g} for its measurements"), found)


def _measuring_price(made: Synthesizer) -> GDP:
    """The whole event of a method of Gaussian steps, or the Gaussian part of what was drawn."""
    if isinstance(made.event_, GDP):
        return made.event_
    squared = sum(squared_mu(event, Adjacency.ADD_REMOVE) for event in made.events_ if isinstance(event, Gaussian))
    return GDP(math.sqrt(squared) * (1 + 1e-12))


# --- record and replay -----------------------------------------------------------------------------------------


def people_pairs(rows: Rows, person: str | None = None, crowd: int = CROWD) -> list[Neighbours]:
    """Tables that differ in one person: with a `person` column also one with `crowd` rows; odd values; nothing left.

    >>> [pair.label for pair in people_pairs({"x": [1, 2]}, crowd=5)][:3]
    ['the first person leaves', 'the last person leaves', 'a copy of the first row comes']
    """
    total = size(rows)
    if total < 2:
        raise ParameterError("give at least two rows")
    owners = list(range(total)) if person is None else list(rows[person])

    def without(owner: object) -> Rows:
        left: Rows = taken(rows, [row for row in range(total) if owners[row] != owner])
        return left

    def strangers(row: Rows, number: int) -> Rows:
        copies = {name: list(values) * number for name, values in row.items()}
        return copies if person is None else {**copies, person: ["a stranger"] * number}

    first = taken(rows, [0])
    found = [
        Neighbours("the first person leaves", rows, without(owners[0])),
        Neighbours("the last person leaves", rows, without(owners[-1])),
        Neighbours("a copy of the first row comes", rows, joined(rows, strangers(first, 1))),
        Neighbours("nothing is left", taken(rows, [0]), taken(rows, [])),
    ]
    for value in ODD:
        odd = strangers({name: [value] for name in rows}, 1)
        found.append(Neighbours(f"a row of {type(value).__name__} values comes", rows, joined(rows, odd)))
    if person is not None:
        found.append(Neighbours(f"a person with {crowd} rows comes", rows, joined(rows, strangers(first, crowd))))
    return found


def replay_synthesizer(
    make: Publish, rows: Rows, *, person: str | None = None, crowd: int = CROWD, only: str = "", seed: int = 0
) -> list[Divergence]:
    """Everything by which a synthesizer tells tables apart that differ in one person, other than through paid noise.

    `make(rows)` returns a `Synthesizer`, or a tuple of one and of figures that are published beside it; `rows` is a
    mapping of lists. Shapes, scales, order and number of draws, errors, the fitted model, made-up rows and their number
    must be the same with frozen noise; inputs of noise must lie within the sensitivity that is priced. Persons who come
    or go are compared so, and a person who is exchanged for another the same way but for the sensitivity, which the two
    halves of the exchange have shown. Last, all that was drawn must cost no more than `event_`.

    Rows of a person are capped by chance; here the first ones are kept, as one outcome of that chance. `only` keeps the
    pairs with this in their label.
    """
    pairs = people_pairs(rows, person, crowd)
    exchanges = [
        Neighbours(f"exchanged: {pair.label}", rows, pair.second) for pair in _exchanged(pairs[0].second, person, crowd)
    ]

    def shown(data: Any) -> object:
        made, *beside = _published(make(data))
        return _shown(made), made.sample().to_pydict(), beside

    return _replayed(make, shown, rows, pairs, exchanges, only, seed)


def replay_tables(
    make: Callable[[Tables], SyntheticTables], tables: Tables, levels: Sequence[Level], *, crowd: int = CROWD,
    only: str = "", seed: int = 0,
) -> list[Divergence]:
    """The same for tables that belong together: a person comes, goes or is exchanged with her rows on every level.

    `make(tables)` returns `SyntheticTables`; `tables` are mappings of lists by level. Rows that lead to no one must
    change nothing.

    >>> from tacit.synthesis import CategoryColumn, synthesize_tables
    >>> levels = [Level("p", [CategoryColumn("sex", ("f", "m"))], key="id"),
    ...           Level("v", [CategoryColumn("ward", ("A", "B"))], of="p", by="p", most=2)]
    >>> tables = {"p": {"id": list(range(9)), "sex": ["f", "m", "m"] * 3}, "v": {"p": list(range(9)) * 2, "ward": ["A", "B"] * 9}}
    >>> replay_tables(lambda data: synthesize_tables(data, levels, mu=1, method="independent"), tables, levels, crowd=5)
    []
    """
    tree = LevelTree.of(levels)
    pairs = level_pairs(tables, tree, crowd)
    left: Any = pairs[0].second
    comers = [pair for pair in level_pairs(left, tree, crowd) if "comes" in pair.label]
    exchanges = [Neighbours(f"exchanged: {pair.label}", tables, pair.second) for pair in comers]

    def shown(data: Any) -> object:
        made = make(data)
        rows = {name: table.to_pydict() for name, table in made.sample().items()}
        return [_shown(made.level(level.name)) for level in levels], rows

    return _replayed(make, shown, tables, pairs, exchanges, only, seed)


def level_pairs(tables: Tables, tree: LevelTree, crowd: int = CROWD) -> list[Neighbours]:
    """Tables that differ in one person with all her rows; and in rows that lead to no one."""
    root = tree.root
    place = root.rows_of or root.name
    keys = list(tables[place][root.key or ""])
    first = {name: taken(table, [0]) if size(table) else table for name, table in tables.items()}

    def without(key: object) -> Tables:
        gone = {root.name: {key}}
        left = dict(tables)
        for level in tree.levels:
            name = level.rows_of or level.name
            table = tables[name]
            by = list(table[level.by]) if level.by else list(table[level.key or ""])
            lost = gone[level.of or root.name]
            kept = [row for row, value in enumerate(by) if value not in lost]
            if level.key and level.of is not None and level.key in table:
                own = list(table[level.key])
                gone[level.name] = {own[row] for row, value in enumerate(by) if value in lost}
            left[name] = taken(table, kept)
        return left

    def coming(number: int, value: Any = UNSEEN, whose: Any = "a stranger", odd: bool = False) -> Tables:
        """One row of a person, and so many of every other level."""
        found = dict(tables)
        for level in tree.levels:
            if level.rows_of is not None:
                continue
            rows = 1 if level.of is None else number
            row = {name: [value if odd else (values[0] if len(values) else value)] * rows for name, values in first[level.name].items()}
            if level.key and level.key in row:
                row[level.key] = [whose] if level.of is None else [f"{whose} {level.name} {n}" for n in range(rows)]
            if level.by:
                above = tree.named(level.of or "")
                row[level.by] = [whose] * rows if above.of is None else [f"{whose} {above.name} {n % 3}" for n in range(rows)]
            found[level.name] = joined(tables[level.name], row)
        return found

    found = [
        Neighbours("the first person leaves", tables, without(keys[0])),
        Neighbours("the last person leaves", tables, without(keys[-1])),
        Neighbours("a person with one row on every level comes", tables, coming(1)),
        Neighbours(f"a person with {crowd} rows comes", tables, coming(crowd)),
    ]
    found += [Neighbours(f"a person of {type(value).__name__} values comes", tables, coming(1, value, odd=True)) for value in ODD]
    if len(tree.levels) > 1 and root.rows_of is None:
        lost = {**coming(crowd, whose="no one's"), root.name: tables[root.name]}
        found.append(Neighbours("rows that lead to no one come", tables, lost))
    return found


def _shown(made: Synthesizer) -> object:
    """What is published of a synthesizer, but for its rows."""
    parts = [[one.columns, one.values.tolist(), one.sigma] for one in made.measured_]
    labels = [(column.name, column.kind, column.labels()) for column in made.columns]
    told = [cell.count for column in made.columns for cell in made.marginal(column.name)]
    return labels, repr(made.event_), made.rows_, parts, told


def _replayed(
    make: Callable[[Any], Any], shown: Callable[[Any], object], rows: Any, pairs: Sequence[Neighbours],
    exchanges: Sequence[Neighbours], only: str, seed: int,
) -> list[Divergence]:
    """All differences between the pairs with frozen noise, and a price that does not cover what was drawn."""
    pairs, exchanges = ([pair for pair in part if only in pair.label] for part in (pairs, exchanges))
    found: dict[tuple[str, str], Divergence] = {}
    with _watched():
        tape = record(shown, rows, seed=seed, again=1)
        for pair in [*pairs, *exchanges]:
            own = tape if pair.first is rows else record(shown, pair.first, seed=seed, again=1)
            for divergence in replay(own, pair.second, pair.label):
                if divergence.kind == "sensitivity" and pair in exchanges:
                    continue
                if divergence.kind == "draws" and divergence.what.startswith("mechanism"):
                    continue  # a quantile's law follows the data, as it must; a sum's is compared by its scale
                found.setdefault((divergence.kind, divergence.what.split(":")[0]), divergence)
        if isinstance(tape.output, Exception):
            raise tape.output
    over = overdrawn(make, rows, seed=seed)
    return [*found.values(), *([Divergence("price", over)] if over else [])]


def _exchanged(left: Any, person: str | None, crowd: int) -> Iterator[Neighbours]:
    for pair in people_pairs(left, person, crowd) if size(left) >= 2 else []:
        if size(pair.second) > size(left):
            yield pair


def _published(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def overdrawn(make: Callable[[Any], Any], rows: Any, *, seed: int = 0) -> str:
    """What is wrong with the price, in words: all that was really drawn against `event_`; empty where it is covered.

    >>> from tacit.synthesis import CategoryColumn, synthesize
    >>> overdrawn(lambda rows: synthesize(rows, [CategoryColumn("x", ("a", "b"))], rho=1, method="aim"), {"x": ["a"] * 9})
    ''
    """
    drawn: list[Event] = []

    def noted(measurement: Measurement, data: Any, distance: Any) -> object:
        drawn.append(measurement.event(distance))
        return measurement.function(data)

    def noisy(sums: NoisySums, values: Any, block: int = 0) -> dict[str, Any]:
        drawn.append(sums.event)
        return {"name": "noisy sums", "value": values}

    def voted(law: Any, counts: Any) -> dict[str, Any]:
        drawn.append(law.event(len(counts)))
        return {"name": "votes", "value": counts}

    with test_mode(seed), observed(noted), intercepted(NoisySums, "add", noisy), ExitStack() as stack:
        if "tacit.deep" in sys.modules:
            stack.enter_context(intercepted(sys.modules["tacit.deep"].GaussianVotes, "answer", voted))
        charged = _published(make(rows))[0].event_
    # Purchases of bins and categories are charged as they are drawn; what else was drawn is held against the rest.
    rest = list(charged.events) if isinstance(charged, Composed) else [charged]
    for event in [one for one in rest if one in drawn]:
        drawn.remove(event)
        rest.remove(event)
    whole, left = Composed(*drawn), Composed(*rest)
    for part in ("mu2", "rho"):
        try:
            spent, permitted = (price(event, [part], Adjacency.ADD_REMOVE)[part] for event in (whole, left))
        except PriceError:
            continue
        if spent > permitted * (1 + Fraction(1, 10**9)):
            return f"what was drawn costs {float(spent / permitted):.4g} times what is charged, in {part}"
        return ""
    return "what was drawn has no price in the currency of what is charged"


@contextmanager
def _watched() -> Iterator[None]:
    """Noise on sums is seen as a mechanism, public randomness frozen, and rows kept in their order where they are capped."""

    def noisy(sums: NoisySums, values: Any, block: int = 0) -> dict[str, Any]:
        reach = sums.scales[block] * sums.reach
        scale = f"{sums.law} {sums.scales[block]}"
        return {"name": "noisy sums", "value": np.asarray(values), "scale": scale, "sensitivity": reach, "norm": "l2"}

    def public(*arguments: object, **named: object) -> dict[str, Any]:
        return {"name": "public randomness", "value": None}

    def votes(law: Any, counts: Any) -> dict[str, Any]:
        reach = law.sigma / float(law.noise.multiplier) * math.sqrt(len(counts))  # one person may move every question
        return {"name": "votes", "value": np.asarray(counts), "scale": law.sigma, "sensitivity": reach, "norm": "l2"}

    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("tacit.synthesis")]
    capping = [module for module in rooms if hasattr(module, "permutation")]
    kept = [module.__dict__["permutation"] for module in capping]
    with ExitStack() as stack:
        stack.enter_context(intercepted(NoisySums, "add", noisy))
        if "tacit.deep" in sys.modules:
            stack.enter_context(_gradients_watched())
            stack.enter_context(intercepted(sys.modules["tacit.deep"].GaussianVotes, "answer", votes))
        for module in rooms:
            if hasattr(module, "uniform_integers"):
                stack.enter_context(intercepted(module, "uniform_integers", public))
        try:
            for module in capping:
                module.__dict__["permutation"] = np.arange
            yield
        finally:
            for module, original in zip(capping, kept, strict=True):
                module.__dict__["permutation"] = original


@contextmanager
def _gradients_watched() -> Iterator[None]:
    """Noise on the sums of gradients, which is added in place, is seen as a mechanism."""
    original = NoisySums.add_to_reals

    def wrapped(noise: NoisySums, sums: Any, *, times: float = 1.0, fill: Any = None, block: int = 0) -> Any:
        granule = noise.granularities[block]
        sums[...] = probe.mechanism(
            "noisy gradients", np.array(sums, dtype=np.float64), scale=f"{float(noise.scales[block] * granule):.12g} {times!r}",
            sensitivity=noise.scales[block] * noise.reach * granule, norm="l2",
            draw=lambda _: np.array(original(noise, sums, times=times, fill=fill, block=block)),
        )  # fmt: skip
        return sums

    with patched(NoisySums, "add_to_reals", wrapped):
        yield


@contextmanager
def patched(owner: Any, attribute: str, stands_in: Any) -> Iterator[None]:
    """Another function in place of one, while this is open."""
    original = getattr(owner, attribute)
    setattr(owner, attribute, stands_in)
    try:
        yield
    finally:
        setattr(owner, attribute, original)
