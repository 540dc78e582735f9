"""Whether the loop treats every record on its own: the body of one step is written down and played again with one record changed.

Clipping bounds what a record does only if the loss of each record depends on that record alone. A class weight, a mean over the tokens
that are not ignored, mixup or a contrastive loss lets records see each other, and nothing in the model shows it. So at the steps 1, 2, 4,
8, ... the loop's torch calls are kept, from the batch to `backward()`, and repeated with one row of the batch made up from the others.
Only that row's input, output and gradient may change.

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

**What it does not see.** Numbers that leave torch and come back (`int(mask.sum())`) are followed only if they come back unchanged; code
that treats records alike until a certain value appears passes until it does. The made-up row consists of values of the batch, so the
outcome depends on the program in all but contrived cases; it is yes or no, and never shows a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tacit.deep.clipping.passes import Rebuild, flatten

INPUTS = "the model's input for one record changes with the other records of its batch"
OUTPUTS = "the model's output for one record changes with the other records of its batch"
GRADIENTS = "the gradient of one record changes with the other records of its batch"
ORDER = "records of a batch change their places, and with them their owners"
FIXES = {
    INPUTS: "leave out mixup and whatever else joins records, or do it within one record of the data set",
    OUTPUTS: "compute each output from its own record only: no statistics of the batch",
    GRADIENTS: "write the loss as a mean over records of terms that each depend on one: cross_entropy(..., reduction='none'), "
    "summed over a record's tokens, divided by a fixed length and scaled by a record's own weight, then .mean(); no mean over tokens with "
    "ignore_index, no class weight=, no negatives from the batch",
    ORDER: "leave the rows of a batch in the order in which the loader hands them out: a user's records lie side by side",
}
MOST = 2000  # calls that are kept: a longer body is not checked

Call = tuple[Callable[..., Any], Any, Any]


def due(step: int) -> bool:
    """Whether the step is checked: 1, 2, 4, 8, ...

    >>> [step for step in range(1, 20) if due(step)]
    [1, 2, 4, 8, 16]
    """
    return step & (step - 1) == 0


class Played(RuntimeError):
    """The tape cannot be played again."""


class Tape(TorchFunctionMode):
    """What a loop does with one batch. Keeps the batch, the calls and the state of torch's generator at the beginning."""

    def __init__(self, batch: Any) -> None:
        super().__init__()
        self.leaves, _ = flatten(batch)
        self.kept = [leaf.detach().clone() for leaf in self.leaves]
        self.calls: list[Call] = []
        self.runs: list[Call] = []  # the calls of the model, of which the last one counts
        self.loss: Tensor | None = None
        self.listening = True
        self.broken = False
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
            self.calls.append((func, (args, options), found))
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
            self.runs.append((forward, (args, kwargs), found))
            self.calls.append(self.runs[-1])
        return found

    def stop(self) -> None:
        """Listen no more. A mode that the loop has put on top and not taken off stays; then this one only passes calls on."""
        self.listening = False
        stack: list[Any] = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if stack and stack[-1] is self:
            self.__exit__(None, None, None)

    def finding(self, *, position: bool) -> str | None:
        """What is wrong, or nothing; with `position`, a record must also keep its place in the batch."""
        self.listening = False
        if self.broken or self.loss is None or not self.runs:
            return None
        count = next((len(leaf) for leaf in self.kept if leaf.ndim), 0)
        if count < 2:
            return None
        generator = torch.Generator().manual_seed(count)
        try:
            base = self._play(self.kept)
            for _ in range(3):
                row = int(torch.randint(count, (1,), generator=generator))
                other = self._play([_changed(leaf, row, count, generator) for leaf in self.kept])
                for message, before, after in zip((INPUTS, OUTPUTS, GRADIENTS), base, other, strict=True):
                    rows = _differ(before, after, count)
                    if len(rows) > 1:
                        return message
                    if position and rows and rows[0] != row:
                        return ORDER
        except Exception:  # what cannot be repeated is not judged, and its error may hold values
            return None
        return None

    def _play(self, leaves: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The model's inputs, outputs, and the loss's gradients by the outputs, for other leaves."""
        now: dict[int, Tensor] = {id(old): new.clone() for old, new in zip(self.leaves, leaves, strict=True)}
        numbers: dict[Any, Any] = {}
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(self._state)
            for call in self.calls:
                func, given, result = call
                old, rebuild = flatten(given)
                if any(call is run for run in self.runs):
                    own = [now.get(id(tensor), tensor) for tensor in old]
                    args, kwargs = rebuild(own)
                    with torch.no_grad():
                        again = func(*args, **kwargs)
                    inputs = [tensor.detach() for tensor in own]
                    outputs = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in flatten(again)[0]]
                    for before, after in zip(flatten(result)[0], outputs, strict=True):
                        now[id(before)] = after
                    continue
                self._repeat(func, old, rebuild, result, now, numbers)
            wanted = [output for output in outputs if output.requires_grad]
            loss = now.get(id(self.loss))
            if loss is None:
                raise Played
            gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        found = [torch.zeros_like(output) if gradient is None else gradient for output, gradient in zip(wanted, gradients, strict=True)]
        return inputs, [output.detach() for output in outputs], found

    def _repeat(
        self, func: Any, old: Sequence[Tensor], rebuild: Rebuild, result: Any, now: dict[int, Tensor], numbers: dict[Any, Any]
    ) -> None:
        """One call again, if something in it comes from the batch or from chance."""
        name = getattr(func, "__name__", "")
        if name in ("__set__", "requires_grad_", "retain_grad", "register_hook"):
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
        again = func(*args, **kwargs)
        if isinstance(result, float | int) and not isinstance(result, bool) and isinstance(again, float | int):
            if result != again:
                numbers[result] = again
            return
        fresh = flatten(again)[0]
        if len(fresh) == len(results):
            for before, after in zip(results, fresh, strict=True):
                now[id(before)] = after


def _replaced(value: Any, numbers: Mapping[Any, Any]) -> Any:
    """The same with numbers that came out of the batch replaced by those of this time."""
    if isinstance(value, dict):
        return {key: _replaced(item, numbers) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_replaced(item, numbers) for item in value)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return numbers.get(value, value)
    return value


def _changed(leaf: Tensor, row: int, count: int, generator: torch.Generator) -> Tensor:
    """The leaf with one row whose every number is that of another row in the same place."""
    if not leaf.ndim or len(leaf) != count:
        return leaf
    others = (row + torch.randint(1, count, leaf.shape[1:], generator=generator)) % count
    changed = leaf.clone()
    changed[row] = leaf.gather(0, others.unsqueeze(0).to(leaf.device))[0]
    return changed


def _differ(before: Sequence[Tensor], after: Sequence[Tensor], count: int) -> list[int]:
    """The rows in which two lists of tensors differ by more than rounding."""
    rows: set[int] = set()
    for one, other in zip(before, after, strict=True):
        if not one.ndim or len(one) != count or one.shape != other.shape:
            continue
        left, right = (torch.nan_to_num(value.detach().double().reshape(count, -1)) for value in (one, other))
        rough = 1e-5 if one.dtype in (torch.float32, torch.float64) else 2e-2
        if left.shape[1]:
            away = (left - right).abs().amax(1) > rough * (left.abs().amax(1) + right.abs().amax(1)) + 1e-30
            rows.update(torch.nonzero(away).flatten().tolist())
    return sorted(rows)
