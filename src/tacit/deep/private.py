"""Private training of an unchanged model with an unchanged optimiser: the loop stays plain, the step is clipped, noised and priced.

>>> import torch
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> data = torch.randn(200, 4), torch.randint(2, (200,))
>>> sampler = PoissonBatches(expected_batch=20, size=200)
>>> private = make_private(model, optimizer, data, noise_multiplier=1.0, clip=1.0, sampler=sampler, steps=10)
>>> model, optimizer, loader = private
>>> for x, y in loader:
...     optimizer.zero_grad()
...     loss = torch.nn.functional.cross_entropy(model(x), y)
...     loss.backward()
...     optimizer.step()
>>> private.steps, round(private.get_epsilon(delta=1e-5).upper, 3)
(10, 2.855)

**What is done.** Each example's gradient is clipped, the clipped gradients of the batch are summed, Gaussian noise of `noise_multiplier`
times the sensitivity is added *once* to the sum, and the result is divided by the public expected size of a batch (Abadi et al. 2016; the
textbook's (7.6) prints the noise inside the sum over examples, which is another algorithm). The optimiser sees only that.

Guarantee
    Statement: the sequence of all steps' gradients, and so everything the optimiser makes of them, costs `private.event`.
    Conditions: the relation of the sampler; the loss of an example depends on that example and the parameters alone (no batch
    statistics: `validate` refuses them); the divisor, the size, the learning rates and the number of steps are public; nothing else
    computed from the data leaves the loop (a training loss printed on the way is not covered).
    Proved in: Abadi et al. 2016, Section 3; composition by the accountant's privacy-loss distributions, since the plan is fixed in advance.
    Arithmetic: sums are kept in a type of at least single precision, whatever the parameters are; a step releases sum plus
    real noise, rounded to a lattice, exactly (docs/decisions/0022); the type of the parameter is put on last.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MethodType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.accounting import Bound, Composed, Event, Gaussian, Guarantee, NoOp, ParameterError, account, calibrate, from_json, to_json
from tacit.deep.alone import FIXES, LATE, UNSEEN, Tape, due
from tacit.deep.clipping import ROUNDING as SUMS
from tacit.deep.clipping import Adaptive, ClippedSum, Clipper, Rule, beside_count, count_sums, flat, halves
from tacit.deep.errors import TrainingError
from tacit.deep.history import History
from tacit.deep.loader import COLLATE, PrivateLoader, Reads, sampler_of
from tacit.deep.noise import GRANULE, READ, add_noise, step_noise
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches, Sampler
from tacit.deep.stopping import Stepwise, as_guarantee, steps_within, stepwise
from tacit.ledger import Account, BudgetExceeded, Payment, paying
from tacit.mechanisms import NoisySums
from tacit.noise import is_private
from tacit.parameters import count, positive

__all__ = ["Allocation", "FixedSize", "FullBatch", "PoissonBatches", "PrivateTraining", "make_private", "make_private_with_epsilon"]


class Noise(Protocol):
    """How the steps of a run are released, and what that makes the run cost."""

    def ready(self, parameters: int) -> None:
        """Before a step of so many parameters: refuses, by public facts alone, what it cannot do."""

    def rounding(self, parameters: int, farthest: float) -> float:
        """What floating point can add to the move of all released sums together; as `farthest`, the largest sum, in deviations."""

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        """`times` the sums of the next step plus its noise, which is that of `noise` alone or together with earlier noise."""

    def event(self, sampler: Sampler, noise_multiplier: float, steps: int) -> Event:
        """The price of the first `steps` steps."""


class Independent:
    """Fresh noise in every step: DP-SGD and everything made of it."""

    def ready(self, parameters: int) -> None:
        pass

    def rounding(self, parameters: int, farthest: float) -> float:
        return (GRANULE + READ * farthest) * math.sqrt(parameters)

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        return add_noise(sums, noise, times)

    def event(self, sampler: Sampler, noise_multiplier: float, steps: int) -> Event:
        return sampler.event(Gaussian(noise_multiplier), steps) if steps else NoOp()


# How far the computed sums move, over the rule's sensitivity: both of two neighbours' sums may be so far from the exact ones.
ROUNDING = 1 + 2 * SUMS
UNCHECKED = "records not checked for seeing each other"  # in the ledger's purpose and the run's own name
MOST = 1024  # expected batches: the sums of a larger one are cut off, which brings no two of them further apart
SCALED = (
    "a GradScaler scales the loss, so gradients would be clipped at another norm, and it skips steps by what the data holds. Leave it out, "
    "or make it with enabled=False: gradients are clipped and noised in full precision, and autocast with bfloat16 needs no scaling"
)
ADVICE = "The loop must call model(x) and loss.backward() once for each whole batch, and may replace no parameter"


class PrivateTraining:
    """A run: the model, the optimiser and the loader to train with, and what it has cost so far. Made by `make_private`.

    A `clipper` of one's own, of the same model and not attached, stands in for the one made from `rule` and `loss_reduction`.
    """

    by_place = False  # whether a row's place in the batch says whose it is

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, data: Any, *, noise_multiplier: float, rule: Rule,
        sampler: Sampler, steps: int, noise: Noise | None = None,
        loss_reduction: Literal["mean", "sum"] = "mean", clipper: Clipper | None = None,
        physical_batch: int | None = None, workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None, account: Account | None = None,
        purpose: str = "training", delta: float | None = None, allow_unseen: bool = False,
        stop_at: Guarantee | str | float | None = None, reserve: Literal["whole", "step"] = "whole", count_clipped: float | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.sampler = sampler
        self.noise_multiplier = float(positive("noise_multiplier", noise_multiplier))
        self.planned = count("steps", steps)
        self.steps = 0
        self.private = True
        self.history = History()
        self._noise = Independent() if noise is None else noise
        self._past: tuple[Event, ...] = ()
        self._account, self._delta = account, delta
        self._purpose = f"{purpose}; {UNCHECKED}" if allow_unseen else purpose
        self._allow_unseen = allow_unseen
        self._judged = False
        self._payment: Payment | None = None
        self._handed: int | None = None  # the records of the batch that is in the loop's hands
        self._noise.event(sampler, self.noise_multiplier, self.planned)  # a plan that cannot be priced is refused here
        self._stop_at = None if stop_at is None else as_guarantee(stop_at, delta)
        self._stepwise = self._filter(self._stop_at, reserve)
        self._ended = False  # begun, and concluded
        self._admitted = 0  # steps that a filter has admitted
        _all_trained(model, optimizer)
        if clipper is not None and clipper.model is not model:
            raise ParameterError("clipper must be one of the model that is trained; make it from the same model")
        self._clipper = Clipper(model, rule, loss_reduction=loss_reduction) if clipper is None else clipper
        self._clipper.largest = None if physical_batch is None else count("physical_batch", physical_batch)
        self._clipper.narrow = True
        self._count_noise = None if count_clipped is None else float(positive("count_clipped", count_clipped))
        if self._count_noise is not None and (isinstance(self.rule, Adaptive) or not isinstance(self._noise, Independent)):
            raise ParameterError(
                "count_clipped= adds a noisy count to independent noise; an adaptive rule has one already, and correlated noise has no "
                "price for it. Leave it out"
            )
        self._buffers: dict[str, tuple[int, int, int]] = {}
        self._tape: Tape | None = None
        self._gradient_multiplier()  # refuses what cannot be split before anything is patched
        reads = Reads.of(data, workers, collate)
        if self._stepwise is not None and reads.options.get("num_workers"):
            raise ParameterError(
                "with reserve='step' no record is read before its step is paid for, so workers cannot read ahead; leave them out"
            )
        self.loader = PrivateLoader(reads, self._drawing(sampler), self)
        self._clipper.attach()
        self._plain_step = optimizer.step
        # A GradScaler then calls step() rather than judging gradients, of which there are none yet, by itself.
        optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]
        optimizer.step = MethodType(self._guarded(), optimizer)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[Any]:
        """`model, optimizer, loader = make_private(...)`."""
        return iter((self.model, self.optimizer, self.loader))

    def __repr__(self) -> str:
        mark = ("" if self.private else ", NOT PRIVATE") + (f", {UNCHECKED}" if self._allow_unseen else "")
        return f"PrivateTraining({self.steps} of {self.planned} steps, noise_multiplier={self.noise_multiplier:g}, {self.sampler!r}{mark})"

    @property
    def rule(self) -> Rule:
        """The clipping rule in force: an adaptive one moves."""
        return self._clipper.rule

    def _drawing(self, sampler: Sampler) -> Sampler:
        """What draws this process's batches: the sampler that is priced."""
        return sampler

    # The price

    def _filter(self, stop_at: Guarantee | None, reserve: str) -> Stepwise | None:
        """The plan is cut where `stop_at` ends it; with `reserve="step"` a filter decides as it goes."""
        if reserve not in ("whole", "step"):
            raise ParameterError(f"reserve must be 'whole' or 'step', not {reserve!r}")
        if reserve == "step":
            if stop_at is None:
                raise ParameterError("reserve='step' needs stop_at=, the guarantee that its filter keeps")
            if not isinstance(self._noise, Independent):
                raise ParameterError("correlated noise is priced for a whole plan; leave out reserve='step'")
            return stepwise(stop_at, self._priced, self.sampler)
        if stop_at is not None:
            self.planned = steps_within(stop_at, self._with_past, self.sampler.adjacency, self.planned)
        return None

    def _priced(self, steps: int) -> Event:
        return self._noise.event(self.sampler, self.noise_multiplier, steps)

    def _with_past(self, steps: int) -> Event:
        now = self._priced(steps)
        return Composed(*self._past, now) if self._past else now

    @property
    def event(self) -> Event:
        """What the steps so far cost, those before a checkpoint included.

        A run that was closed before its plan ended costs the whole plan: whoever stops it may do so because of what was seen. Under
        `reserve="step"` it is what the filter promises, whenever the run is stopped.
        """
        if self._stepwise is not None:
            return self._stepwise.promise() if self._touched else NoOp()
        return self._with_past(self.planned if self._ended else self.steps)

    @property
    def _touched(self) -> bool:
        """Whether anything was done, before a checkpoint included."""
        return bool(self.steps or self._past or self._ended or (self._stepwise is not None and self._stepwise.filter.spent))

    def get_epsilon(self, delta: float) -> Bound:
        """A certified bracket on the epsilon of everything done so far, `event`: what may be published."""
        if not self.private:
            raise TrainingError("noise was drawn in test mode: this run is NOT PRIVATE and has no epsilon")
        if not self._touched:
            return Bound(0.0, 0.0, "nothing was done")
        return account(self.event, self.sampler.adjacency).epsilon(delta)

    def so_far(self, delta: float) -> Bound:
        """The epsilon so far, to watch: of the plan's first steps, or by the odometer of the filter, valid at all moments at once."""
        if self._stepwise is None or not self.private:
            return self.get_epsilon(delta)
        return self._stepwise.reading(delta)

    # What the loader tells

    def remaining(self) -> int:
        """The steps that are planned and not yet taken."""
        return self.planned - self.steps

    def begin(self) -> None:
        """Before a pass: the plan is paid for, or refused, before a record is read."""
        self._forget()  # a loop that broke off left a batch without its step
        if self._stop_at is not None and self.remaining() <= 0:
            return  # a pass without a batch: the run has stopped
        if self._stepwise is not None:
            return
        if self.remaining() <= 0:
            raise TrainingError(f"all {self.planned} planned steps are taken; plan more with steps= or epochs= in a new make_private call")
        if self._payment is None or self._payment.status != "open":
            plan = self._noise.event(self.sampler, self.noise_multiplier, self.remaining())
            self._payment = paying(self._account, plan, purpose=self._purpose, delta=self._delta, advice=ADVICE).open()

    def admitted(self) -> bool:
        """Before a batch is read: whether its step is within the guarantee, and, step by step, paid for. If not, the run has stopped."""
        if self._stepwise is None or self.steps < self._admitted:
            return True
        if not self._stepwise.admits():
            return self._stopped()
        self.close()
        payment = paying(self._account, self._stepwise.event, purpose=self._purpose, delta=self._delta, advice=ADVICE)
        try:
            self._payment = payment.open()
        except BudgetExceeded:
            if not self.steps:
                raise
            return self._stopped()
        self._stepwise = self._stepwise.admitted()
        self._admitted = self.steps + self._stepwise.block
        return True

    def _stopped(self) -> bool:
        self.planned = self.steps
        self.close()
        return False

    def touching(self) -> AbstractContextManager[Payment]:
        """A block of the run that computes on records: its errors are withheld, and end the payment."""
        payment = self._payment
        if payment is None or payment.status != "open":  # closed early, or failed: what is left of this pass was paid for
            payment = paying(None, NoOp(), advice=ADVICE).open()
        return payment.touching()

    def collated_together(self) -> None:
        """What collate makes of a record was seen to change with the others: refused, unless the run allows what cannot be followed."""
        if not self._allow_unseen:
            raise TrainingError(COLLATE)

    def handed_out(self, records: int, *, drawn: bool = True, batch: Any = None) -> None:
        """A batch of so many records goes to the loop; not `drawn`, it is a placeholder, and counts for nothing."""
        self._handed = records
        self._clipper.counting = drawn
        self._buffers = buffers(self.model)
        self.left()
        # A backward pass that was written by hand may do anything at any step, so that each one is looked at.
        if drawn and batch is not None and (due(self.steps + 1) or not self._judged or self._clipper.own_backward):
            self._tape = Tape(batch, self._clipper.again)
            self._tape.__enter__()  # type: ignore[no-untyped-call]
            self._clipper.witness = self._tape.model

    def left(self) -> None:
        """The loop broke off, or its step begins: what it does is no longer written down."""
        if self._tape is not None:
            self._tape.stop()
        self._tape = self._clipper.witness = None

    def moved_on(self) -> None:
        """The loop came back: it must have stepped."""
        if self._handed is not None:
            self._forget()
            raise TrainingError(
                "the loop asked for the next batch before optimizer.step(). Every batch is one priced step; to use less memory set "
                "physical_batch=: the model then splits each batch by itself"
            )

    # The step

    def _guarded(self) -> Callable[..., None]:
        """What stands in for `optimizer.step`: a plain function, because torch's schedulers bind it to the optimiser anew."""

        def step(optimizer: Optimizer, closure: Any = None, grad_scaler: Any = None) -> None:
            if grad_scaler is not None or getattr(optimizer, "grad_scale", None) is not None:
                self._forget()
                raise TrainingError(SCALED)
            self._step(closure)

        if hasattr(self._plain_step, "_wrapped_by_lr_sched"):  # a scheduler made earlier watches the step that this one calls
            step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        step.run = self  # type: ignore[attr-defined]
        return step

    def _step(self, closure: Any = None) -> None:
        if closure is not None:
            raise TrainingError("an optimiser that evaluates the loss again (closure=) would see the batch more than once; use another one")
        tape = self._tape
        self.left()
        if self._handed is None:
            raise TrainingError("optimizer.step() was called without a batch of the private loader; iterate over make_private's loader")
        found = None
        if tape is not None:
            with self._clipper.rehearsing():
                found = tape.finding(position=self.by_place, whole=due(self.steps + 1) or not self._judged)
            self._judged = self._judged or tape.judged
        if found is not None and found != UNSEEN:
            raise TrainingError(f"{found}, so clipping bounds nothing; {FIXES[found]}")
        self._release(self._handed, unseen=found or "", looked=tape is not None)

    def _release(self, handed: int, *, unseen: str = "", looked: bool = True) -> None:
        """Take the clipped sum, add noise once, divide by the public number, and let the optimiser have it."""
        if self.remaining() <= 0:
            raise TrainingError(f"all {self.planned} planned steps are taken")
        with self.touching():
            collected = self._clipper.collect()
        if collected.passes != 1 or collected.seen != handed:
            raise TrainingError(
                "the backward pass saw other examples than the loader handed out: run model(x) and loss.backward() once for each batch, on "
                "the whole batch, in train mode, and evaluate under torch.no_grad()"
            )
        if self._clipper.own_backward and self._clipper.counting and not looked:
            unseen = LATE
        if unseen and not self._allow_unseen:
            raise TrainingError(f"{unseen}; {FIXES[unseen]}")
        if buffers(self.model) != self._buffers:
            raise TrainingError(
                "a buffer of the model was written while a batch was in hand, and would carry the data past the noise; compute it from "
                "parameters, or make it in advance from public data"
            )
        _all_trained(self.model, self.optimizer)  # also what was added since
        self.private = self.private and is_private()
        self._noise.ready(sum(part.numel() for part in collected.sums.values()))
        with self.touching() as payment:
            payment.noticed(self.private)
            scale = self._noisy_gradients(collected)
            self.steps += 1
            self._handed = None
            self.loader.took()
            clip = collected.sensitivity
            clipped = self._adapt(collected)
        if not isinstance(self._noise, Independent):
            scale = math.nan  # correlated noise is not alike in every step: nothing is estimated from it
        self.history.record(self.steps, [self._clipper.params[name].grad for name in collected.sums], scale, clip, clipped)
        self._plain_step()
        if self.remaining() == 0:
            self.close()

    @torch.no_grad()
    def _noisy_gradients(self, collected: ClippedSum) -> float:
        """Set every gradient to (sum + noise) / divisor, in its own type; returns the deviation of the noise in each."""
        parts = list(collected.sums.values())
        sizes = [part.numel() for part in parts]
        sums = torch.cat([part.reshape(-1) for part in parts]) if collected.together is None else collected.together
        sensitivity = collected.sensitivity * ROUNDING
        most, multiplier = MOST * float(self.sampler.divisor), self._gradient_multiplier()
        if collected.count > most:  # else no sum is larger
            sums.clamp_(-most * sensitivity, most * sensitivity)
        noise = step_noise(multiplier, sensitivity, self._noise.rounding(len(sums), most / multiplier))
        noisy = self._noise.add(sums, noise, 1 / float(self.sampler.divisor))
        for name, part, piece in zip(collected.sums, parts, noisy.split_with_sizes(sizes), strict=True):
            parameter = self._clipper.params[name]
            parameter.grad = piece.view(part.shape).to(parameter.dtype)
        return noise.deviation() / float(self.sampler.divisor)

    def _gradient_multiplier(self) -> float:
        """The multiplier of the gradient's noise: a count of the examples within the threshold takes its share of the step's."""
        rule = self._clipper.rule
        if isinstance(rule, Adaptive):
            return rule.gradient_multiplier(self.noise_multiplier)
        return self.noise_multiplier if self._count_noise is None else beside_count(self.noise_multiplier, self._count_noise)

    @property
    def _count(self) -> NoisySums | None:
        """The noise on the count of examples within the threshold, where that is paid for."""
        rule = self._clipper.rule
        if isinstance(rule, Adaptive):
            return rule.count
        return None if self._count_noise is None else count_sums(self._count_noise)

    def _adapt(self, collected: ClippedSum) -> float | None:
        """The noisy share of clipped examples, where it was paid for; an adaptive threshold moves by it."""
        noise = self._count
        return None if noise is None else self._counted(noise.release(halves(collected.within(), collected.count)))

    def _counted(self, noisy: float) -> float:
        """The share of clipped examples that a noisy count tells."""
        size, rule = float(self.sampler.divisor), self._clipper.rule
        if isinstance(rule, Adaptive):
            self._clipper.rule = rule.updated(noisy, size)
        return min(1.0, max(0.0, 0.5 - noisy / size))

    def _forget(self) -> None:
        self.left()
        self._clipper.discard()
        self._handed = None

    # The end, and the beginning again

    def close(self) -> None:
        """Conclude the ledger's entry. What was planned and not done stays spent, and part of the price."""
        if self._payment is not None:
            self._ended = self._stepwise is None
            if self._payment.status == "open":
                self._payment.commit()

    def detach(self) -> None:
        """Give model and optimiser back as they were."""
        self.close()
        self._clipper.detach()
        if getattr(self.optimizer.__dict__.get("step"), "run", None) is self:
            self.optimizer.step = self._plain_step
            self.optimizer.__dict__.pop("_step_supports_amp_scaling", None)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the states of model and optimiser: the price so far. No state of noise is kept, on purpose."""
        kept: dict[str, Any] = {"event": to_json(self.event), "steps": self.steps, "planned": self.planned, "private": self.private}
        if self._stepwise is not None:
            kept["filter"] = self._stepwise.to_record()
        return kept | ({"clip": self.rule.clip} if isinstance(self.rule, Adaptive) else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: its price is carried, its remaining steps are planned, and paid for anew, with fresh noise."""
        if self.steps or self._past:
            raise TrainingError("a checkpoint is loaded into a new run, before its first step")
        taken = count("steps", state["steps"], least=0)
        if (self._stepwise is None) != ("filter" not in state):
            raise TrainingError("a run that pays step by step goes on as one, with the same stop_at, and a run that is paid whole as that")
        self.planned = max(0, int(state["planned"]) - taken)
        if self._stepwise is not None:
            self._stepwise = self._stepwise.resumed(state["filter"])
            self._admitted = 0
        else:
            self._past = (from_json(state["event"]),) if taken else ()
            if self._stop_at is not None and self.planned and self._past:
                self.planned = steps_within(self._stop_at, self._with_past, self.sampler.adjacency, self.planned)
        self.private = bool(state["private"])
        if isinstance(self.rule, Adaptive):
            self._clipper.rule = replace(self.rule, clip=float(state["clip"]))


def buffers(model: nn.Module) -> dict[str, tuple[int, int, int]]:
    """Which tensor each buffer is, how often it was written to, and a checksum: what goes through `.data` or numpy is not counted.

    >>> buffers(nn.Linear(1, 1))
    {}
    """
    return {
        name: (id(buffer), buffer._version, zlib.crc32(buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()))
        for name, buffer in model.named_buffers()
    }


def _all_trained(model: nn.Module, optimizer: Optimizer) -> None:
    """Every trainable parameter must be the optimiser's, and the other way round: otherwise something is clipped that is not trained."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad}
    trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    if not trained:
        raise ParameterError("the model has no trainable parameter")
    if held != trained:
        missing = [name for name, parameter in model.named_parameters() if parameter.requires_grad and id(parameter) not in held]
        raise ParameterError(
            f"the optimizer does not hold {missing}; give it model.parameters(), or freeze those with requires_grad_(False)"
            if missing
            else "the optimizer holds parameters that are not the model's; make it from model.parameters()"
        )


def make_private(
    model: nn.Module, optimizer: Optimizer, data: Any, *, noise_multiplier: float, clip: float | Rule,
    sampler: Sampler | None = None, size: int | None = None, steps: int | None = None, epochs: int | None = None,
    noise: Noise | None = None, exact: bool = True, loss_reduction: Literal["mean", "sum"] = "mean",
    physical_batch: int | None = None, workers: int = 0, collate: Callable[[list[Any]], Any] | None = None,
    account: Account | None = None, purpose: str = "training", delta: float | None = None, allow_unseen: bool = False,
    stop_at: Guarantee | str | float | None = None, reserve: Literal["whole", "step"] = "whole", count_clipped: float | None = None,
) -> PrivateTraining:
    """Train `model` privately on `data` with the optimiser it already has, at a given noise.

    `data` is a DataLoader, a Dataset with a length, or tensors; `sampler` says how each step's batch is drawn. A DataLoader keeps its data
    set, collate function, workers and pinned memory; with `size`, the declared number of records, instead of a sampler, its batches become
    Poisson batches of its batch size on average. `clip` is the norm each example's gradient
    is clipped to, or a rule (`flat`, `per_layer`, `automatic`, `adaptive`). The plan is `steps`, or `epochs` of the sampler's passes. With
    `account`, a ledger account, the whole plan is paid before the first record is read (`delta` prices it where the account needs one).
    `stop_at`, a guarantee or an epsilon beside `delta`, ends the run with the last step that fits; with `reserve="step"` each step is
    admitted, and paid for, by itself under a proven filter, and stopping early leaves the rest (`tacit.deep.stopping`).
    `count_clipped`, the deviation of the noise on a count in every step, buys the share of clipped examples for the history, under any
    rule: the gradients get a little more noise, and the step costs the same.
    `exact=True` is what always happens now, and may be left out. A loop whose way from the batch to the loss cannot be followed
    (`tacit.deep.alone`) is refused; `allow_unseen=True` lets it go on, and is written into the ledger's purpose.

    >>> import torch
    >>> model = torch.nn.Linear(3, 1)
    >>> data = torch.zeros(50, 3), torch.zeros(50, 1)
    >>> run = make_private(model, torch.optim.Adam(model.parameters()), data, noise_multiplier=2, clip=1, sampler=FullBatch(50), epochs=4)
    >>> run
    PrivateTraining(0 of 4 steps, noise_multiplier=2, FullBatch(size=50, adjacency=Adjacency.ADD_REMOVE))
    """
    if not exact:
        raise ParameterError("exact=False asks for floating-point noise, whose epsilon would be no bound; leave it out")
    sampler = sampler_of(data, sampler, size)
    return PrivateTraining(
        model,
        optimizer,
        data,
        noise_multiplier=noise_multiplier,
        rule=flat(clip) if isinstance(clip, int | float) else clip,
        sampler=sampler,
        steps=planned_steps(sampler, steps, epochs),
        noise=noise,
        loss_reduction=loss_reduction,
        physical_batch=physical_batch,
        workers=workers,
        collate=collate,
        account=account,
        purpose=purpose,
        delta=delta,
        allow_unseen=allow_unseen,
        stop_at=stop_at,
        reserve=reserve,
        count_clipped=count_clipped,
    )


def make_private_with_epsilon(
    model: nn.Module, optimizer: Optimizer, data: Any, *, sampler: Sampler | None = None, size: int | None = None,
    guarantee: Guarantee | str | None = None, epsilon: float | None = None, delta: float | None = None,
    rho: float | None = None, mu: float | None = None, **plan: Any,
) -> PrivateTraining:
    """As `make_private`, with the least noise for which the whole plan costs at most `epsilon` at `delta`, or another guarantee.

    >>> import torch
    >>> model = torch.nn.Linear(3, 1)
    >>> data = torch.zeros(50, 3), torch.zeros(50, 1)
    >>> how = dict(clip=1, sampler=PoissonBatches(expected_batch=5, size=50), steps=100)
    >>> run = make_private_with_epsilon(model, torch.optim.SGD(model.parameters(), lr=0.1), data, epsilon=1, delta=1e-5, **how)
    >>> round(run.noise_multiplier, 3)
    3.942
    """
    if "noise_multiplier" in plan:
        raise ParameterError("give epsilon (and get the noise) or noise_multiplier (and get the epsilon, with make_private), not both")
    if plan.get("stop_at") is not None:
        raise ParameterError("the whole plan is made to cost epsilon, so it needs no stop_at=; use make_private with a noise_multiplier")
    sampler = sampler_of(data, sampler, size)
    steps = planned_steps(sampler, plan.pop("steps", None), plan.pop("epochs", None))
    noise = plan.get("noise") or Independent()
    asked = {"given": guarantee, "epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    found, paid = noise_for(lambda z: noise.event(sampler, z, steps), sampler, None, asked)
    return make_private(model, optimizer, data, noise_multiplier=found, sampler=sampler, steps=steps, **({"delta": paid} | plan))


def noise_for(
    make: Callable[[float], Event], sampler: Sampler, noise_multiplier: float | None, asked: Mapping[str, Any]
) -> tuple[float, float | None]:
    """The noise multiplier that was given, or the least one for the guarantee that was, and the delta that a ledger is charged.

    `asked` are the arguments of `Guarantee.of`. A delta beside a noise multiplier only says what a ledger account is charged.
    """
    wanted = any(asked[name] is not None for name in ("given", "epsilon", "rho", "mu"))
    if noise_multiplier is not None:
        if wanted:
            raise ParameterError("give epsilon (and get the noise) or noise_multiplier (and get the epsilon), not both")
        return noise_multiplier, asked["delta"]
    if not wanted:
        raise ParameterError("give noise_multiplier, or epsilon and delta")
    guarantee = Guarantee.of(**asked, state_delta=True)
    return calibrate(make, guarantee=guarantee, adjacency=sampler.adjacency), guarantee.floats.delta or None


def planned_steps(sampler: Sampler, steps: int | None, epochs: int | None) -> int:
    """The steps of a plan, given one way.

    >>> planned_steps(PoissonBatches(expected_batch=10, size=100), steps=None, epochs=3)
    30
    """
    if (steps is None) == (epochs is None):
        raise ParameterError("give either steps= or epochs=: the plan is fixed before it is priced")
    return count("steps", steps) if steps is not None else count("epochs", epochs) * sampler.epoch
