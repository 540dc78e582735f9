"""Record and replay: run on one data set, freeze what every mechanism answered, and run on a neighbour with the same answers.

Whatever still differs did not go through a mechanism. Names and order of mechanisms, shapes, scales, laws drawn from,
errors and the final output must be the same on both; and the inputs of each mechanism must lie no farther apart than
its declared sensitivity, where NaN counts as infinitely far. It needs a few runs and no statistics, and finds most
leaks that are known in software (arXiv 2602.17454).

>>> def leaky(ages):
...     total = probe.mechanism("total", sum(ages), sensitivity=100, draw=lambda v: v + discrete_laplace(100))
...     return total / len(ages)  # the number of rows is private too
>>> from tacit.noise import discrete_laplace
>>> for found in replay(record(leaky, [30, 40]), [30, 40, 120]):
...     print(found)
sensitivity: mechanism 1 (total): inputs are 120 apart where 100 is declared
output: the output follows the data outside every mechanism

Tacit's own measurements and draws are seen without a word. Foreign code calls `probe.mechanism` where it adds noise,
which does nothing outside a recording, or is intercepted from outside (`intercepted`). Everything runs in test mode,
which production refuses.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.mechanisms.neighbours import Neighbours
from tacit.audit.mechanisms.outputs import describe
from tacit.calculus import Measurement, Metric, Release, Transformation, observed, walk
from tacit.noise import test_mode, watch
from tacit.parameters import Number

Function = Callable[[Any], Any]  # under audit: of a data set of any form, to any answer
Answer = TypeVar("Answer")
Real = int | float | Fraction
NORMS = ("l1", "l2", "linf")
AGAIN = 8


@dataclass(frozen=True)
class Divergence:
    """One difference between two runs that an observer could use. It shows no value of the data.

    It is `certain` where everything random was frozen. Where noise is drawn outside mechanisms, a difference may be that noise at work: it
    is worth a look, and the black-box search decides.
    """

    kind: str
    what: str
    pair: str = ""
    certain: bool = True

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}" + (f" [{self.pair}]" if self.pair else "") + ("" if self.certain else " (perhaps)")


@dataclass(frozen=True)
class Step:
    """One use of a mechanism: what went in, what came out, and what was declared."""

    name: str
    value: object = field(repr=False)
    output: object = field(repr=False)
    scale: object = None
    sensitivity: Real | None = None
    norm: str | Metric = "l1"
    draws: tuple[object, ...] = ()
    frozen: bool = True


@dataclass(frozen=True)
class Tape:
    """One run of a function: its mechanisms, statements sent to an engine, draws outside mechanisms, and how it ended."""

    function: Function = field(repr=False)
    data: object = field(repr=False)
    seed: int
    steps: tuple[Step, ...]
    statements: tuple[object, ...] = field(repr=False)
    outside: tuple[object, ...]
    output: object = field(repr=False)
    steady: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The mechanisms in the order in which they ran."""
        return tuple(step.name for step in self.steps)


class _Run:
    """What is written down while a function runs; with a tape, answers come from there."""

    def __init__(self, draws: Sequence[object], tape: Tape | None) -> None:
        self.draws, self.tape = draws, tape
        self.steps: list[Step] = []
        self.statements: list[object] = []
        self.spans: list[tuple[int, int]] = []

    def mechanism(self, name: str, value: object, draw: Function, **declared: Any) -> Any:
        """The mechanism's answer, or the frozen one; `declared` are fields of the `Step`."""
        start = len(self.draws)
        kept = _copied(value)
        answer = draw(value)
        self.spans.append((start, len(self.draws)))
        place = len(self.steps)
        output, frozen = _copied(answer), plain(answer)
        if self.tape is not None and place < len(self.tape.steps):
            past = self.tape.steps[place]
            if past.name == name and past.frozen:
                answer = _copied(past.output)
        self.steps.append(Step(name, kept, output, draws=tuple(self.draws[start:]), frozen=frozen, **declared))
        return answer

    def measurement(self, measurement: Measurement, data: object, distance: Number) -> object:
        """A measurement of ours: its transformations run in the open, so that what reaches the noise can be seen."""
        *before, last = walk(measurement) if _is_chain(measurement) else [measurement]
        for part in before:
            assert isinstance(part, Transformation)
            data, distance = part.function(data), part.map(distance)
        final = last.function if before else measurement.function
        return self.mechanism(last.name, data, final, scale=last.name, sensitivity=distance, norm=last.input.metric)

    def outside(self) -> tuple[object, ...]:
        covered = {i for start, end in self.spans for i in range(start, end)}
        return tuple(draw for i, draw in enumerate(self.draws) if i not in covered)


def _is_chain(measurement: Measurement) -> bool:
    """Transformations, then one measurement whose function is that of the chain: post-processing and compositions are not."""
    parts = list(walk(measurement))
    names = " >> ".join(part.name for part in parts)
    return len(parts) > 1 and names == measurement.name and all(isinstance(part, Transformation) for part in parts[:-1])


_active: ContextVar[_Run | None] = ContextVar("tacit_audit_run", default=None)


class Probe:
    """What foreign code calls where it adds noise. Outside a recording it only passes on."""

    def mechanism(
        self, name: str, value: object, *,
        scale: object = None, sensitivity: Real | None = None, norm: str = "l1", draw: Function | None = None,
    ) -> Any:
        """The noisy answer `draw(value)`; while replaying, the one that was frozen.

        >>> probe.mechanism("count", 3, sensitivity=1, draw=lambda value: value + 1)
        4
        """
        if norm not in NORMS:
            raise ParameterError(f"norm must be one of {', '.join(NORMS)}, not {norm!r}")
        run, add = _active.get(), draw or (lambda unchanged: unchanged)
        if run is None:
            return add(value)
        return run.mechanism(name, value, add, scale=scale, sensitivity=sensitivity, norm=norm)

    def frozen(self, name: str, call: Callable[[], Answer]) -> Answer:
        """The answer of a call that is private as a whole, such as a question to a session; frozen while replaying."""
        run = _active.get()
        answer: Answer = call() if run is None else run.mechanism(name, None, lambda _: call())
        return answer

    def engine(self, engine: Any) -> Any:
        """An engine of tables whose statements are compared, and the names of the columns that come back."""
        return _Engine(engine)


probe = Probe()


class _Engine:
    """Stands for any engine: what it does not have, the engine behind it has."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def run(self, statement: object) -> Any:
        found, run = self._inner.run(statement), _active.get()
        if run is not None:
            run.statements.append((str(statement), tuple(found.column_names)))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def intercepted(owner: object, attribute: str, reads: Callable[..., Mapping[str, Any]]) -> Iterator[None]:
    """Record a mechanism of another library without touching its code: `owner.attribute` is wrapped while this is open.

    `reads(*arguments, **named)` returns what `probe.mechanism` takes: name, value, and whatever is declared.

    >>> import types
    >>> library = types.SimpleNamespace(add_noise=lambda value, scale: value)
    >>> with intercepted(library, "add_noise", lambda value, scale: {"name": "noise", "value": value, "scale": scale, "sensitivity": 1}):
    ...     tape = record(lambda data: library.add_noise(sum(data), scale=2), [1, 2])
    >>> tape.names, tape.steps[0].scale
    (('noise',), 2)
    """
    original = getattr(owner, attribute)

    def wrapped(*arguments: object, **named: object) -> object:
        return probe.mechanism(**reads(*arguments, **named), draw=lambda _: original(*arguments, **named))

    setattr(owner, attribute, wrapped)
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def _run(function: Function, data: object, seed: int, tape: Tape | None) -> Tape:
    output: object
    with watch(draws=True) as seen, test_mode(seed):
        assert seen.draws is not None
        run = _Run(seen.draws, tape)
        token = _active.set(run)
        try:
            with observed(run.measurement):
                output = function(_copied(data))
        except (Exception, SystemExit) as error:  # how it ended is part of what it says
            output = error
        finally:
            _active.reset(token)
    return Tape(function, data, seed, tuple(run.steps), tuple(run.statements), run.outside(), output)


def record(function: Function, data: object, *, seed: int = 0, again: int = AGAIN) -> Tape:
    """Run a function and write down every mechanism it uses; `again` runs with the answers frozen say whether anything else is random."""
    first = _run(function, data, seed, None)
    # Noise of its own may fall twice on the same side of a coin, but hardly ever so many times.
    steady = all(_same(_value(first.output), _value(_run(function, data, seed, first).output)) for _ in range(again))
    return Tape(function, data, seed, first.steps, first.statements, first.outside, first.output, steady)


def replay(tape: Tape, neighbour: object, label: str = "") -> list[Divergence]:
    """Run the function on a neighbour with the answers of the tape, and list every difference."""
    other = _run(tape.function, neighbour, tape.seed, tape)
    settled = tape.steady and not tape.outside and not other.outside
    # Nothing random comes before the first draw, so its law must be the same in any case; and a sensitivity is exceeded whatever was drawn.
    first = tape.outside[:1] != other.outside[:1] and not tape.steps and not other.steps and tape.steady
    return [
        Divergence(kind, what, label, settled or kind == "sensitivity" or (first and kind == "draws"))
        for kind, what in _differences(tape, other)
    ]


def replay_all(function: Function, pairs: Iterable[Neighbours], *, seed: int = 0) -> list[Divergence]:
    """Record on the first and replay on the second of every pair; each kind of difference is kept once a mechanism.

    >>> from tacit.audit.mechanisms.neighbours import neighbours
    >>> replay_all(lambda data: probe.mechanism("count", len(data), sensitivity=1), neighbours([1, 2, 3]))
    []
    """
    found: dict[tuple[str, str], Divergence] = {}
    for pair in pairs:
        for divergence in replay(record(function, pair.first, seed=seed), pair.second, pair.label):
            place = divergence.kind, divergence.what.split(":")[0]
            if place not in found or (divergence.certain and not found[place].certain):
                found[place] = divergence
    return list(found.values())


# --- what counts as a difference ---------------------------------------------------------------------------------------------------------


def _differences(one: Tape, two: Tape) -> Iterator[tuple[str, str]]:
    raised = [type(tape.output).__name__ if isinstance(tape.output, BaseException) else None for tape in (one, two)]
    if raised[0] != raised[1]:
        yield "control flow", f"an exception is raised on one of the two ({raised[0] or raised[1]})"
    if one.names != two.names:
        shorter = min(len(one.names), len(two.names))
        alike = next((i for i in range(shorter) if one.names[i] != two.names[i]), shorter)
        kind = "name" if len(one.names) == len(two.names) else "control flow"
        yield kind, f"{len(one.names)} and {len(two.names)} mechanisms run, different ones from mechanism {alike + 1} on"
    for place, (first, second) in enumerate(zip(one.steps, two.steps, strict=False), start=1):
        if first.name != second.name:
            break
        for kind, what in _compared(first, second):
            yield kind, f"mechanism {place} ({first.name}): {what}"
    if one.statements != two.statements:
        yield "control flow", "other statements are sent to the engine, or other columns come back"
    if one.outside != two.outside:
        yield "draws", "noise outside mechanisms is drawn from other laws, or in other shapes"
    if not any(raised):
        yield from _ends(one, two)


def _ends(one: Tape, two: Tape) -> Iterator[tuple[str, str]]:
    first, second = _value(one.output), _value(two.output)
    if describe(first)[0] != describe(second)[0]:
        yield "support", "the output is of another type, length or form"
    elif one.steady and not one.outside and one.names == two.names and one.steps and not _same(first, second):
        yield "output", "the output follows the data outside every mechanism"


def _compared(first: Step, second: Step) -> Iterator[tuple[str, str]]:
    rows = isinstance(first.norm, Metric) and first.norm.adjacency is not None  # a mechanism on data sets, whose size may differ
    if not rows and _shape(first.value) != _shape(second.value):
        yield "shape", "its inputs have different shapes"
    if not _same(first.scale, second.scale):
        yield "scale", "the scale of the noise follows the data"
    if not _same(first.sensitivity, second.sensitivity):
        yield "scale", "the declared sensitivity follows the data"
    if first.draws != second.draws:
        yield "draws", "noise is drawn from other laws, or in other shapes"
    if describe(_value(first.output))[0] != describe(_value(second.output))[0]:
        yield "support", "its answers are of another type, length or form"
    if first.sensitivity is not None and (rows or _shape(first.value) == _shape(second.value)):
        apart = distance(first.value, second.value, first.norm)
        if not _within(first.value, second.value, first.norm, first.sensitivity, apart):
            yield "sensitivity", f"inputs are {_figure(apart)} apart where {_figure(first.sensitivity)} is declared"


def distance(first: object, second: object, norm: str | Metric = "l1") -> Real:
    """How far apart two inputs of a mechanism are, exactly; infinite where NaN or shapes keep it from being a number.

    >>> distance([1, 2], [2, 4]), distance([0.0, 0.0], [3.0, 4.0], "l2"), distance(math.nan, math.nan)
    (Fraction(3, 1), 5.0, inf)
    """
    if isinstance(norm, Metric):
        try:
            return norm.distance(first, second)
        except Exception:  # what the metric cannot measure is not close
            return math.inf
    gaps = _gaps(first, second)
    if gaps is None:
        return math.inf
    if norm == "linf":
        return max(gaps, default=Fraction(0))
    return sum(gaps, Fraction(0)) if norm == "l1" else math.sqrt(sum((g * g for g in gaps), Fraction(0)))


def _within(first: object, second: object, norm: str | Metric, bound: Real, apart: Real) -> bool:
    """Exactly where exactness matters: a square root is compared by its square."""
    if isinstance(norm, Metric):
        try:
            return apart != math.inf and norm.within(first, second, bound)
        except Exception:  # as above
            return False
    gaps = _gaps(first, second)
    if gaps is None or bound != bound or bound == math.inf:
        return False  # an infinite sensitivity promises nothing
    if norm == "l2":
        return sum((g * g for g in gaps), Fraction(0)) <= Fraction(bound) ** 2
    return bool(apart <= Fraction(bound))


def _gaps(first: object, second: object) -> list[Fraction] | None:
    one, two = (_numbers(value) for value in (first, second))
    if one is None or two is None or len(one) != len(two):
        return None
    return [abs(a - b) for a, b in zip(one, two, strict=True)]


def _numbers(value: object) -> list[Fraction] | None:
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=repr)]
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if isinstance(value, (list, tuple)):
        parts = [_numbers(v) for v in value]
        return None if any(part is None for part in parts) else [x for part in parts if part is not None for x in part]
    number: Any = value.item() if isinstance(value, np.generic) else value
    try:
        return [Fraction(number)]
    except (TypeError, ValueError, OverflowError):  # NaN, infinities, texts
        return None


def _shape(value: object) -> object:
    return tuple(np.shape(value)) if isinstance(value, (np.ndarray, np.generic)) else describe(value)[0]


def _figure(value: Real) -> str:
    return f"{float(value):.6g}"


def _value(output: object) -> object:
    """What is published of a release of ours."""
    return output.value if isinstance(output, Release) else output


def _same(first: object, second: object) -> bool:
    return describe(first) == describe(second)


def plain(value: object) -> bool:
    """Whether a value is data and can be frozen; an object that answers further questions cannot.

    >>> plain([1, {"a": None}]), plain(object())
    (True, False)
    """
    if isinstance(value, Mapping):
        return all(plain(v) for v in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(plain(v) for v in value)
    if isinstance(value, np.ndarray):
        return value.dtype != object or all(plain(v) for v in value.reshape(-1).tolist())
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, Fraction, np.generic))


def _copied(value: Answer) -> Answer:
    try:
        return copy.deepcopy(value)
    except Exception:  # a connection, a generator: it is used as it is
        return value
