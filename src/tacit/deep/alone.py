"""Whether the loop treats every record on its own: the body of one step is written down and played again with one record changed.

Clipping bounds what a record does only if the loss of each record depends on that record alone. A class weight, a mean over the tokens
that are not ignored, mixup or a contrastive loss lets records see each other, and nothing in the model shows it. So at the steps 1, 2, 4,
8, ... the loop's torch calls are kept, from the batch to `backward()`, and repeated with one row of the batch made up from the others.
Only that row's input, output and gradient may change. The model's own backward pass is repeated too, with half of the rows made up, as a
function with a backward pass of its own, or a hook, may join records there alone: no gradient of a parameter by another record may change.
A model with such functions has its backward pass played again at every step.

>>> x, y = torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
>>> model = torch.nn.Linear(3, 2)
>>> for weight in (None, torch.tensor([1.0, 5.0])):
...     tape = Tape([x, y])
...     with tape:
...         output = tape.model(model, (x,), {})
...         torch.nn.functional.cross_entropy(output, y, weight=weight).backward()
...     print(tape.finding(position=True))
None
the gradient of one record changes with the other records of its batch

What cannot be played again, or leaves torch on its way to the loss, is refused too (`UNSEEN`), unless the run allows it.
A number that leaves (`int(mask.sum())`) and comes back unchanged is followed.

**What it does not see.** Code that treats records alike until a certain value appears passes until it does. The made-up
row consists of values of the batch, so the outcome depends on the program in all but contrived cases; it is yes or no,
and never shows a value.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tacit.deep.clipping.clipper import Rehearsed
from tacit.deep.clipping.passes import Rebuild, flatten
from tacit.errors import TacitError

#: The model's arguments and the gradients of its outputs, differentiated.
Differentiate = Callable[[Any, Any, Sequence[Tensor | None]], Rehearsed]

INPUTS = "the model's input for one record changes with the other records of its batch"
OUTPUTS = "the model's output for one record changes with the other records of its batch"
GRADIENTS = "the gradient of one record changes with the other records of its batch"
BACKWARD = "the model's backward pass joins records: inside it the gradient of one record changes with the other records of its batch"
ORDER = "records of a batch change their places, and with them their owners"
UNSEEN = "the way from the batch to the loss cannot be followed, so it is not known whether records see each other"
LATE = "a function with a backward pass of its own came into the model at a step that was not looked at"
FIXES = {
    LATE: "use every autograd.Function of the model from the first step on: then each of its steps is looked at. If you have checked that "
    "it treats each record on its own, allow_unseen=True goes on, and the ledger says so",
    UNSEEN: "between the batch and loss.backward() use torch calls only: read numbers into tensors in the loader (collate=), "
    "make constant tensors before the loop, compute what is logged after backward(), call backward() once, on one loss. If you "
    "have checked that each record's loss depends on that record alone, allow_unseen=True goes on, and the ledger says so",
    INPUTS: "leave out mixup and whatever else joins records, or do it within one record of the data set",
    OUTPUTS: "compute each output from its own record only: no statistics of the batch",
    GRADIENTS: "write the loss as a mean over records of terms that each depend on one: cross_entropy(..., reduction='none'), "
    "summed over a record's tokens, divided by a fixed length and scaled by a record's own weight, then .mean(); no mean over tokens with "
    "ignore_index, no class weight=, no negatives from the batch",
    BACKWARD: "leave out hooks on tensors, and let the backward pass of every autograd.Function treat each record on its own",
    ORDER: "leave the rows of a batch in the order in which the loader hands them out: a user's records lie side by side",
}
MOST = 10_000  # calls that are kept
PRECISE = (torch.float32, torch.float64)
FINE, ROUGH = 1e-5, 2e-2  # rounding, in these and in half precision
SET = ("__set__", "requires_grad_", "retain_grad", "register_hook")
MADE = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, torch.frombuffer)  # tensors of what is none


class Call(NamedTuple):
    """One call of the loop: a function, what it was given, what came out, and the type that autocast had it compute in."""

    func: Callable[..., Any]
    given: Any
    found: Any
    autocast: torch.dtype | None

    @classmethod
    def of(cls, func: Callable[..., Any], given: Any, found: Any) -> Call:
        return cls(func, given, found, torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)

    def again(self, args: Any, kwargs: Any) -> Any:
        """The same function, under the same autocast."""
        if self.autocast is None:
            return self.func(*args, **kwargs)
        with torch.autocast("cpu", dtype=self.autocast):
            return self.func(*args, **kwargs)


def due(step: int) -> bool:
    """Whether the step is checked: 1, 2, 4, 8, ...

    >>> [step for step in range(1, 20) if due(step)]
    [1, 2, 4, 8, 16]
    """
    return step & (step - 1) == 0


class Unplayable(TacitError, RuntimeError):
    """The tape cannot be played again."""


class Played(NamedTuple):
    """What came of playing it: the model's inputs, its outputs and the loss's gradients by them; and what its last call was given, with
    the state of chance before it."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    gradients: list[Tensor]
    given: Any
    by_output: Sequence[Tensor | None]
    state: Tensor

    @property
    def seen(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """What must stay as it is where a record does."""
        return self.inputs, self.outputs, self.gradients

    @property
    def rough(self) -> bool:
        """Whether numbers of half precision are among them."""
        return any(t.is_floating_point() and t.dtype not in PRECISE for part in self.seen for t in part)


class Tape(TorchFunctionMode):
    """What a loop does with one batch. Keeps the batch, the calls and the state of torch's generator at the beginning."""

    def __init__(self, batch: Any, differentiate: Differentiate | None = None) -> None:
        super().__init__()
        self.differentiate = differentiate  # the model's backward pass as it is in training; None leaves it out
        self.leaves, _ = flatten(batch)
        self.kept = [leaf.detach().clone() for leaf in self.leaves]
        self.calls: list[Call] = []
        self.runs: list[Call] = []  # the calls of the model, of which the last one counts
        self.loss: Tensor | None = None
        self.listening = True
        self.broken = False
        self.judged = False  # whether the batch had records enough to tell
        self._left: set[int] = set()  # the calls whose result was no tensor and came out otherwise when played again
        self._state = torch.get_rng_state()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        options = dict(kwargs or {})
        if not self.listening:
            return func(*args, **options)
        if func in (Tensor.backward, torch.autograd.backward):
            root = args[0]
            self.broken = self.broken or self.loss is not None or not isinstance(root, Tensor)
            self.loss = root if isinstance(root, Tensor) else None
            self.listening = False
            try:
                return func(*args, **options)
            finally:
                self.listening = True
        found = func(*args, **options)
        if self.loss is None and len(self.calls) < MOST:
            self.calls.append(Call.of(func, (args, options), found))
        elif self.loss is None:
            self.broken = True
        return found

    def model(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The model's own call, kept as one."""
        if not self.listening:
            return forward(*args, **kwargs)
        self.listening = False
        try:
            found = forward(*args, **kwargs)
        finally:
            self.listening = True
        if self.loss is None:
            self.runs.append(Call.of(forward, (args, kwargs), found))
            self.calls.append(self.runs[-1])
        return found

    def stop(self) -> None:
        """Listen no more. A mode that the loop has put on top and not taken off stays; then this one only passes calls on."""
        self.listening = False
        stack: list[Any] = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if stack and stack[-1] is self:
            self.__exit__(None, None, None)

    def finding(self, *, position: bool, whole: bool = True) -> str | None:
        """What is wrong, or nothing; with `position`, a record must also keep its place in the batch; not `whole`, the backward pass alone
        is looked at."""
        self.listening = False
        if self.broken or self.loss is None or not self.runs:
            return UNSEEN
        count = next((len(leaf) for leaf in self.kept if leaf.ndim), None)
        if count is not None and count < 2:
            return None
        if count is None or any(leaf.ndim and len(leaf) != count for leaf in self.kept):
            return UNSEEN
        self.judged = True
        generator = torch.Generator().manual_seed(count)
        try:
            base = self._play(self.kept)
            # One row at a time, and each half of the rows: what the first record does to all is seen in the half that holds it.
            order = torch.randperm(count, generator=generator)
            parts = (order[:1], order[1:2], order[2:3], order[: count // 2], order[count // 2 :])
            for changed in parts if whole else ():
                other = self._play([_changed(leaf, changed, count, generator) for leaf in self.kept])
                for message, before, after in zip((INPUTS, OUTPUTS, GRADIENTS), base.seen, other.seen, strict=True):
                    rows = _differ(before, after, count)
                    if len(rows) > len(changed):
                        return message
                    if position and not set(rows) <= set(changed.tolist()):
                        return ORDER
            if self.differentiate is not None and self._joined(base, order, count, generator):
                return BACKWARD
            return UNSEEN if self._strays() else None
        except Exception:  # the error may hold values
            return UNSEEN

    def _joined(self, base: Played, order: Tensor, count: int, generator: torch.Generator) -> bool:
        """Whether the model's own backward pass lets a half of the records change the gradients of the other half."""
        first, rough = self._differentiated(base), ROUGH if base.rough else FINE
        for changed in (order[: count // 2], order[count // 2 :]):
            played = self._play([_changed(leaf, changed, count, generator) for leaf in self.kept])
            other = self._differentiated(played)
            # Whose rows these are in the model: the loop may have put them into another order.
            moved = {row for before, after in zip(base.seen, played.seen, strict=True) for row in _differ(before, after, count)}
            others = torch.tensor([row for row in range(count) if row not in moved], dtype=torch.long)
            odd = first.dropped() | other.dropped()
            norms, ours = torch.nan_to_num(first.norms()[others]), torch.nan_to_num(other.norms()[others])
            if ((norms - ours).abs() > rough * (norms + ours) + 1e-30).any():
                return True
            # Of all together, in case their norms stay: each under a weight of its own, so that not all cancels.
            weights = torch.zeros(count, dtype=torch.float64)
            weights[others] = 0.5 + torch.rand(len(others), generator=generator, dtype=torch.float64)
            weights[odd] = 0
            away = rough * float((weights[others, None] * (norms + ours)).sum()) + 1e-30
            for one, two in zip(first.sums(weights), other.sums(weights), strict=True):
                if float((one - two).norm()) > away:
                    return True
        return False

    def _differentiated(self, played: Played) -> Rehearsed:
        assert self.differentiate is not None
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(played.state)
            run = self.runs[-1]
            args, kwargs = played.given
            return cast("Rehearsed", run._replace(func=self.differentiate).again((args, kwargs, played.by_output), {}))

    def _strays(self) -> bool:
        """Whether something besides tensors and unchanged numbers has a way from the batch to the loss."""
        wanted, feeding = {id(self.loss)}, set[int]()
        for i, call in reversed(list(enumerate(self.calls))):
            given, made = flatten(call.given)[0], flatten(call.found)[0]
            written = given[:1] if call.func is Tensor.__setitem__ else []
            if any(id(tensor) in wanted for tensor in (*made, *written)):
                feeding.add(i)
                wanted.update(id(tensor) for tensor in given)
        last = max(feeding, default=-1)
        for i, call in enumerate(self.calls):
            if i in feeding and call.func in MADE and not flatten(call.given)[0] and call.found.ndim:
                return True
            if i in self._left and i < last and not self._comes_back(i):
                return True
        return False

    def _comes_back(self, i: int) -> bool:
        """Whether the number that call i gave out is given, as it is, to a later call."""
        found = self.calls[i].found
        later = (number for call in self.calls[i + 1 :] for number in _numbers(call.given))
        return isinstance(found, float | int) and not isinstance(found, bool) and any(number == found for number in later)

    def _play(self, leaves: Sequence[Tensor]) -> Played:
        """The model's inputs, outputs, and the loss's gradients by the outputs, for other leaves."""
        now: dict[int, Tensor] = {id(old): new.clone() for old, new in zip(self.leaves, leaves, strict=True)}
        numbers: dict[Any, Any] = {}
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        followed: list[Tensor] = []
        own_outputs = {id(tensor) for run in self.runs for tensor in flatten(run.found)[0]}
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(self._state)
            for place, call in enumerate(self.calls):
                result = call.found
                old, rebuild = flatten(call.given)
                if any(call is run for run in self.runs):
                    if call is self.runs[-1] and not any(id(tensor) in now for tensor in old):
                        raise Unplayable
                    own = [now.get(id(tensor), tensor) for tensor in old]
                    args, kwargs = given = rebuild(own)
                    state = torch.get_rng_state()
                    with torch.no_grad():
                        again = call.again(args, kwargs)
                    inputs = [tensor.detach() for tensor in own]
                    outputs = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in flatten(again)[0]]
                    for before, after in zip(flatten(result)[0], outputs, strict=True):
                        now[id(before)] = after
                    continue
                self._repeat(place, call, old, rebuild, now, numbers)
                followed += [tensor for tensor in flatten(result)[0] if id(tensor) in now and id(tensor) not in own_outputs]
            wanted = [output for output in outputs if output.requires_grad]
            loss = now.get(id(self.loss))
            if loss is None:
                raise Unplayable
            gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
            if all(gradient is None for gradient in gradients) or any(_otherwise(before, now[id(before)]) for before in followed):
                raise Unplayable
        found = [torch.zeros_like(output) if gradient is None else gradient for output, gradient in zip(wanted, gradients, strict=True)]
        # What was written to after the model had it would be another input now.
        return Played(inputs, [output.detach() for output in outputs], found, given, gradients, state)

    def _repeat(
        self, place: int, call: Call, old: Sequence[Tensor], rebuild: Rebuild, now: dict[int, Tensor], numbers: dict[Any, Any]
    ) -> None:
        """One call again, if something in it comes from the batch or from chance."""
        name, result = getattr(call.func, "__name__", ""), call.found
        if any(tensor.grad_fn is not None and id(tensor) not in now for tensor in old):
            raise Unplayable  # it has a way to the model that no call here is part of
        if name == "register_hook" and any(id(tensor) in now for tensor in old):
            raise Unplayable
        if name in SET:
            return
        touched = any(id(tensor) in now for tensor in old)
        results = flatten(result)[0]
        if not touched and (old or not results):  # constants stay; draws from the generator are repeated
            return
        own = [now.get(id(tensor), tensor) for tensor in old]
        in_place = name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
        if own and in_place and id(old[0]) not in now:
            own[0] = own[0].clone()  # written to: the loop's own tensor is left alone
        args, kwargs = _replaced(rebuild(own), numbers)
        again = call.again(args, kwargs)
        fresh = flatten(again)[0]
        if not results and not fresh:
            if not _same(result, again):
                self._left.add(place)
                if isinstance(result, float | int) and not isinstance(result, bool):
                    numbers[result] = again
            return
        if len(fresh) == len(results):
            for before, after in zip(results, fresh, strict=True):
                now[id(before)] = after


def _otherwise(before: Tensor, after: Tensor) -> bool:
    """Whether the loop's own gradient of a tensor comes another way: a function of its own stands in for what was written down."""
    return before.grad_fn is not None and type(before.grad_fn) is not type(after.grad_fn)


def _same(one: Any, other: Any) -> bool:
    """Whether two results that are no tensors are alike; an object that tells nothing of itself is like another of its kind."""
    if isinstance(one, float | int | str | bytes | bool | tuple | list | dict | np.ndarray | np.generic):
        left, right = (pickle.dumps(value) for value in (one, other))
        return left == right
    return type(one) is type(other)


def _numbers(value: Any) -> Iterator[float]:
    """The numbers in a tree of arguments."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield value


def _replaced(value: Any, numbers: Mapping[Any, Any]) -> Any:
    """The same with numbers that came out of the batch replaced by those of this time."""
    if isinstance(value, dict):
        return {key: _replaced(item, numbers) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_replaced(item, numbers) for item in value)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return numbers.get(value, value)
    return value


def _changed(leaf: Tensor, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The leaf with some rows whose every number is that of another row in the same place."""
    if not leaf.ndim or len(leaf) != count:
        return leaf
    away = torch.randint(1, count, (len(rows), *leaf.shape[1:]), generator=generator)
    others = (rows.view(-1, *[1] * (leaf.ndim - 1)) + away) % count
    changed = leaf.clone()
    changed[rows.to(leaf.device)] = leaf.gather(0, others.to(leaf.device))
    return changed


def _differ(before: Sequence[Tensor], after: Sequence[Tensor], count: int) -> list[int]:
    """The rows in which two lists of tensors differ by more than rounding."""
    rows: set[int] = set()
    for one, other in zip(before, after, strict=True):
        if not one.ndim or len(one) != count or one.shape != other.shape:
            continue
        left, right = (torch.nan_to_num(value.detach().double().reshape(count, -1)) for value in (one, other))
        rough = FINE if one.dtype in PRECISE else ROUGH
        if left.shape[1]:
            away = (left - right).abs().amax(1) > rough * (left.abs().amax(1) + right.abs().amax(1)) + 1e-30
            rows.update(torch.nonzero(away).flatten().tolist())
    return sorted(rows)
