"""Watching a private run: a line or a bar with the epsilon so far, and figures of quality that are public or paid for.

What is shown is what may be shown: steps, the epsilon so far, the signal in the released gradients, the noisy share of clipped
examples where the run pays for one, and what was measured by `evaluate` or noted in the history. A loss on private records is never shown.

>>> from tacit.deep.private import make_private
>>> from tacit.deep.samplers import PoissonBatches
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> data = torch.randn(200, 4), torch.randint(2, (200,))
>>> private = make_private(
...     model, optimizer, data, noise_multiplier=2.0, clip=1.0, sampler=PoissonBatches(20, 200), steps=10, count_clipped=5.0)
>>> for x, y in progress(private, delta=1e-5, lines=2):
...     optimizer.zero_grad()
...     torch.nn.functional.cross_entropy(model(x), y).backward()
...     optimizer.step()
step 5 of 10, epsilon so far 0.61, signal/noise ..., clipped ... % (noisy)
step 10 of 10, epsilon so far 0.798, signal/noise ..., clipped ... % (noisy)
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.accounting import Adjacency, ParameterError
from tacit.deep.private import PrivateTraining
from tacit.ledger import Account, paying
from tacit.mechanisms import NoisySums
from tacit.parameters import count, positive

Show = Literal["auto", "rich", "notebook", "plain", "none"]
ADVICE = "The model must return one row of scores for each record"


def status(private: PrivateTraining, delta: float) -> str:
    """One line about a run: everything in it is public.

    >>> from tacit.deep.private import make_private
    >>> from tacit.deep.samplers import FullBatch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> status(make_private(model, optimizer, torch.zeros(9, 4), noise_multiplier=2.0, clip=1.0, sampler=FullBatch(9), steps=10), 1e-5)
    'step 0 of 10, epsilon so far 0'
    """
    parts = [f"step {private.steps} of {private.planned}"]
    parts.append(f"epsilon so far {private.so_far(delta).upper:.3g}" if private.private else "NOT PRIVATE")
    history = private.history
    if history.signal_to_noise and history.signal_to_noise[-1] == history.signal_to_noise[-1]:
        parts.append(f"signal/noise {history.signal_to_noise[-1]:.3g}")
    if history.clipped and history.clipped[-1] is not None:
        parts.append(f"clipped {100 * history.clipped[-1]:.0f} % (noisy)")
    latest = {name: value for _, name, value in history.notes}
    return ", ".join([*parts, *(f"{name} {value:.3g}" for name, value in latest.items())])


def progress(
    private: PrivateTraining, delta: float, *, show: Show = "auto", lines: int = 10, stream: TextIO | None = None
) -> Iterator[Any]:
    """One pass over the run's loader that shows how far it is: `for x, y in progress(private, delta=1e-5)`.

    `rich` draws a bar in a terminal, `notebook` one line that changes in place, `plain` up to `lines` lines; `auto` looks where it is.
    """
    steps = max(1, min(len(private.loader), private.remaining()))
    every = max(1, steps // count("lines", lines))
    with _shown(show, stream or sys.stdout, steps) as shown:
        for taken, batch in enumerate(private.loader):
            if taken and taken % every == 0:
                shown.say(status(private, delta), taken)
            yield batch
        shown.say(status(private, delta), steps)


class Shown(Protocol):
    """Where a run's line goes."""

    def say(self, line: str, taken: int) -> None:
        """Show it, after so many steps of the pass."""


class Plain:
    """A line each time."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream

    def say(self, line: str, taken: int) -> None:
        if self.stream is not None:
            print(line, file=self.stream, flush=True)


class Notebook:
    """One output of a notebook's cell, which changes in place."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.handle: Any = None

    def say(self, line: str, taken: int) -> None:
        text = {"text/plain": line}
        if self.handle is None:
            self.handle = self.display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)


class Bar:
    """A bar of rich, with the line beside it."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def say(self, line: str, taken: int) -> None:
        self.bar.update(self.task, description=line, completed=taken)


@contextmanager
def _shown(show: Show, stream: TextIO, steps: int) -> Iterator[Shown]:
    if show not in ("auto", "rich", "notebook", "plain", "none"):
        raise ParameterError(f"show must be 'auto', 'rich', 'notebook', 'plain' or 'none', not {show!r}")
    display = _display() if show in ("auto", "notebook") else None
    if show == "notebook" and display is None:
        raise ParameterError("show='notebook' needs IPython's display; use show='plain'")
    if display is not None:
        yield Notebook(display)
    elif show == "rich" or (show == "auto" and stream.isatty()):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=Console(file=stream)) as bar:
            yield Bar(bar, bar.add_task("", total=steps))
    else:
        yield Plain(None if show == "none" else stream)


def _display() -> Any:
    """The display of the notebook that this runs in; None elsewhere."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return found.display.display if found is not None and shell is not None and getattr(shell, "kernel", None) is not None else None


def evaluate(
    private: PrivateTraining, inputs: Any, labels: Tensor, *, groups: Sequence[Hashable] | None = None,
    known: Sequence[Hashable] = (), public: bool = False, epsilon: float | None = None,
    account: Account | None = None, delta: float | None = None,
) -> dict[str, float]:
    """Accuracy of the model, in all and by group, noted in the history; on public records the loss too.

    Say `public=True` if the records are, or pay `epsilon` for noisy counts: `groups` names each record's group, `known` lists
    the groups that there may be, in advance. A record is counted once, so one person's moves one count by one.

    Guarantee
        Statement: with `epsilon`, what is returned costs `Laplace(1 / epsilon)`, whatever the records are.
        Conditions: a person has one record; `known` is public; the relation of the run (replace-one moves two counts, and has noise for
        that).
        Proved in: Dwork, McSherry, Nissim, Smith 2006; quotients of noisy counts are post-processing.

    >>> from tacit.deep.private import make_private
    >>> from tacit.deep.samplers import FullBatch
    >>> model = torch.nn.Linear(2, 2)
    >>> data = torch.zeros(9, 2), torch.zeros(9, dtype=torch.long)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> private = make_private(model, optimizer, data, noise_multiplier=2.0, clip=1.0, sampler=FullBatch(9), steps=1)
    >>> figures = evaluate(private, *data, groups=["a"] * 9, known=["a", "b"], epsilon=1.0)
    >>> sorted(figures)
    ['accuracy', 'accuracy, a', 'accuracy, b']
    """
    if public == (epsilon is not None):
        raise ParameterError("say public=True for records that are public, or give epsilon= for noisy counts, and not both")
    names = list(dict.fromkeys(known)) if known else []
    if groups is not None and not names:
        raise ParameterError("known= must list the groups that there may be; they are not read from the data")
    if epsilon is None:
        right, own = _right(private.model, inputs, labels), _places(groups, names, len(labels))
        found = _rates(np.array([[np.sum(right[own == k]), np.sum(~right[own == k])] for k in range(max(1, len(names)))]), names)
        found["loss"] = _loss(private.model, inputs, labels)
    else:
        moved = 1 if private.sampler.adjacency is Adjacency.ADD_REMOVE else 2
        noise = NoisySums.of_multiplier("laplace", 1 / positive("epsilon", epsilon), moved, adjacency=private.sampler.adjacency)
        with paying(account, noise.event, purpose="accuracy", delta=delta, advice=ADVICE) as payment:
            right, own = _right(private.model, inputs, labels), _places(groups, names, len(labels))
            counts = np.array([[np.sum(right[own == k]), np.sum(~right[own == k])] for k in range(max(1, len(names)))], dtype=np.int64)
            noisy = noise.release(counts)
            payment.noticed(private.private)
        found = _rates(np.asarray(noisy), names)
    for name, value in found.items():
        private.history.note(private.steps, name, value)
    return found


def _rates(counts: NDArray[Any], names: Sequence[Hashable]) -> dict[str, float]:
    """Shares of right answers, in all and by group, between 0 and 1; 1/2 where a noisy count has nothing left."""
    rows = {"accuracy": counts.sum(0)} | {f"accuracy, {name}": row for name, row in zip(names, counts, strict=False)}
    return {name: _share(float(right), float(wrong)) for name, (right, wrong) in rows.items()}


def _share(right: float, wrong: float) -> float:
    total = right + wrong
    return min(1.0, max(0.0, right / total)) if total > 0 else 0.5


def _places(groups: Sequence[Hashable] | None, names: Sequence[Hashable], records: int) -> NDArray[np.int64]:
    """The place of each record's group among the known ones; -1 for another, which is counted nowhere."""
    if groups is None:
        return np.zeros(records, dtype=np.int64)
    place = {name: k for k, name in enumerate(names)}
    return np.array([place.get(group, -1) for group in groups], dtype=np.int64)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def _right(model: nn.Module, inputs: Any, labels: Tensor) -> NDArray[np.bool_]:
    with _evaluating(model):
        scores = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
    return np.asarray((scores.argmax(1) == labels).cpu().numpy(), dtype=np.bool_)


def _loss(model: nn.Module, inputs: Any, labels: Tensor) -> float:
    with _evaluating(model):
        scores = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
    return float(nn.functional.cross_entropy(scores, labels))
