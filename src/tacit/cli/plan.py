"""From the options of a command to the event that is priced.

>>> plan = read_plan({"noise": "1.1", "sampling": "256/60000", "epochs": "60"})
>>> plan.event()
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(8, 1875)), event=Gaussian(noise_multiplier=1.1)), count=14062)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.accounting import (
    AccountingError,
    Adjacency,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Group,
    Laplace,
    Poisson,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    Staircase,
    WithoutReplacement,
    WithReplacement,
)
from tacit.accounting.events import Leaf
from tacit.accounting.interchange import from_json
from tacit.accounting.parameters import Number
from tacit.accounting.schemes import Scheme
from tacit.cli import numbers
from tacit.cli.numbers import OptionError, shown

# Mechanisms whose noise is chosen, and mechanisms that come with an epsilon of their own.
NOISY: dict[str, Callable[..., Leaf]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "discrete-gaussian": DiscreteGaussian,
    "discrete-laplace": DiscreteLaplace,
}
STATED = ("pure", "approximate", "randomized-response", "exponential", "staircase")
SCHEMES = ("poisson", "without-replacement", "with-replacement", "random-allocation")
_LARGEST_FILE = 10_000_000  # bytes of an event file
# What describes the event, and cannot be given beside a file that does.
_DESCRIBING = ("mechanism", "noise", "step_epsilon", "step_delta", "categories", "sampling", "scheme", "size", "batch", "epochs")


@dataclass(frozen=True)
class Plan:
    """One step, how often it is taken, and the relation it is asked for."""

    step: Callable[[Number], Event]  # the step for a given noise; a plan with its own noise ignores the argument
    noise: Number | None
    steps: int
    rate: Fraction | None = None  # the share of the records in one step
    adjacency: Adjacency | None = None
    null_record: bool = False
    group: int = 1
    per_epoch: int = 1  # how many noisy steps one unit of `steps` stands for

    def event(self, *, noise: Number | None = None, steps: int | None = None) -> Event:
        """The whole event, with the noise or the number of steps replaced where they are searched for."""
        chosen = self.noise if noise is None else noise
        one = self.step(0 if chosen is None else chosen)
        times = self.steps if steps is None else steps
        repeated = Repeated(one, times) if times > 1 else one
        return Group(repeated, self.group) if self.group > 1 else repeated


def option_name(parameter: str) -> str:
    """--step-epsilon for step_epsilon."""
    return "--" + parameter.replace("_", "-")


def read_plan(options: Mapping[str, Any], *, free: str | None = None) -> Plan:
    """The plan that the options of a command describe; `free` is the parameter that is searched for and so must not be given."""
    given: dict[str, str] = {name: value for name, value in options.items() if value is not None}
    if free and given.get(free) is not None:
        raise OptionError(f"{option_name(free)} is what this command searches for; leave it out")
    group = numbers.whole("--group", given["group"]) if "group" in given else 1
    plan = _from_file(given, free) if "event" in given else _from_options(given, free)
    return replace(plan, group=group, null_record=bool(options.get("null_record")))


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> str:
    chosen = value.strip().lower().replace("_", "-")
    if chosen not in allowed:
        raise OptionError(f"{option} must be one of {', '.join(allowed)}, not {shown(value)}")
    return chosen


def _adjacency(given: Mapping[str, str]) -> Adjacency | None:
    if "adjacency" not in given:
        return None
    return Adjacency.parse(given["adjacency"].strip().lower(), name="--adjacency")


def _from_file(given: Mapping[str, str], free: str | None) -> Plan:
    if free == "noise":
        raise OptionError("--event fixes the noise; to search for it describe the event with --mechanism and --sampling")
    if twice := [option_name(name) for name in _DESCRIBING if name in given]:
        raise OptionError(f"--event already says what is done to the data; leave out {', '.join(twice)}")
    steps = numbers.whole("--steps", given["steps"]) if "steps" in given else 1
    event = read_event(given["event"])
    return Plan(lambda _: event, None, steps, adjacency=_adjacency(given))


def read_event(name: str) -> Event:
    """The event in a JSON file."""
    try:
        path = Path(name)
        if path.stat().st_size > _LARGEST_FILE:
            raise OptionError(f"--event: {shown(name)} is larger than {_LARGEST_FILE // 10**6} MB, so it is no event")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"--event: {shown(name)} is not text in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise OptionError(f"--event: cannot read {shown(name)}: {reason}") from None
    try:
        return from_json(text)
    except AccountingError as error:
        raise OptionError(f"--event: {shown(name)}: {error}") from None


def _from_options(given: Mapping[str, str], free: str | None) -> Plan:
    mechanism = _choice("--mechanism", given.get("mechanism", "gaussian"), (*NOISY, *STATED))
    scheme_name = _choice("--scheme", given["scheme"], SCHEMES) if "scheme" in given else "poisson"
    asked = _adjacency(given) or _usual_adjacency(mechanism, scheme_name)
    leaf, noise = _mechanism(mechanism, given, asked, free)
    rate = _rate(given)
    if rate is None and "scheme" in given:
        raise OptionError("--scheme needs to know how much is sampled; add --size and --batch, or --sampling")
    if scheme_name == "random-allocation":
        return _allocation(given, leaf, noise, rate or Fraction(1), asked, free)
    scheme = _scheme(scheme_name, given, rate)
    steps = _steps(given, rate, free)

    def step(sigma: Number) -> Event:
        return leaf(sigma) if scheme is None else Sampled(scheme, leaf(sigma))

    return Plan(step, noise, steps, rate, asked)


def _usual_adjacency(mechanism: str, scheme: str) -> Adjacency:
    """The relation that a mechanism or a sampler is proved for, where nobody asks for another."""
    fixed_size = scheme in ("without-replacement", "with-replacement")
    return Adjacency.REPLACE_ONE if fixed_size or mechanism == "randomized-response" else Adjacency.ADD_REMOVE


def _mechanism(
    mechanism: str, given: Mapping[str, str], asked: Adjacency, free: str | None
) -> tuple[Callable[[Number], Event], Number | None]:
    """The event of one step for a given noise, and the noise if it is given."""
    if mechanism in NOISY:
        for name in ("step_epsilon", "step_delta", "categories"):
            if name in given:
                raise OptionError(f"{option_name(name)} does not go with --mechanism {mechanism}, which is described by --noise")
        if free != "noise" and "noise" not in given:
            raise OptionError("--noise is missing; give for example --noise 1.1, the noise relative to what one record can contribute")
        # noise is relative to the contribution of one record: that is one zeroing or one addition, and half a replacement
        stated = Adjacency.ZERO_OUT if asked is Adjacency.ZERO_OUT else Adjacency.ADD_REMOVE
        make = NOISY[mechanism]
        return (lambda sigma: make(sigma, adjacency=stated)), None if free == "noise" else numbers.positive("--noise", given["noise"])
    if free == "noise":
        raise OptionError(f"--mechanism {mechanism} has no noise to search for; use one of {', '.join(NOISY)}")
    if "noise" in given:
        raise OptionError(f"--noise does not go with --mechanism {mechanism}, which is described by --step-epsilon")
    if "step_epsilon" not in given:
        raise OptionError(f"--step-epsilon is missing; --mechanism {mechanism} needs the epsilon of one step, such as --step-epsilon 0.1")
    epsilon = numbers.positive("--step-epsilon", given["step_epsilon"])
    if "categories" in given and mechanism != "randomized-response":
        raise OptionError("--categories goes only with --mechanism randomized-response")
    if "step_delta" in given and mechanism != "approximate":
        raise OptionError("--step-delta goes only with --mechanism approximate")
    return (lambda _: _stated(mechanism, epsilon, given, asked)), None


def _stated(mechanism: str, epsilon: Number, given: Mapping[str, str], asked: Adjacency) -> Leaf:
    match mechanism:
        case "randomized-response":
            return RandomizedResponse(epsilon, numbers.whole("--categories", given.get("categories", "2")))
        case "approximate":
            return ApproxDP(epsilon, numbers.probability("--step-delta", given.get("step_delta", "0")), adjacency=asked)
        case "exponential":
            return Exponential(epsilon, adjacency=asked)
        case "staircase":
            return Staircase(epsilon, adjacency=asked)
    return PureDP(epsilon, adjacency=asked)


def _rate(given: Mapping[str, str]) -> Fraction | None:
    """The share of the records in one step: --sampling, or --batch out of --size."""
    sized = "size" in given or "batch" in given
    if sized and not ("size" in given and "batch" in given):
        missing = "--batch" if "size" in given else "--size"
        raise OptionError(f"{missing} is missing; --size and --batch go together, as in --size 60000 --batch 256")
    if not sized:
        return numbers.share("--sampling", given["sampling"]) if "sampling" in given else None
    rate = Fraction(numbers.whole("--batch", given["batch"]), numbers.whole("--size", given["size"]))
    if "sampling" in given and numbers.share("--sampling", given["sampling"]) != rate:
        raise OptionError(f"--sampling contradicts --batch / --size, which is {rate}; leave one of them out")
    if rate > 1 and given.get("scheme") != "with-replacement":
        raise OptionError("--batch must be at most --size")
    return rate


def _scheme(name: str, given: Mapping[str, str], rate: Fraction | None) -> Scheme | None:
    if rate is None:
        return None
    if name == "poisson":
        return Poisson(rate)
    if "size" in given:
        size, batch = numbers.whole("--size", given["size"]), numbers.whole("--batch", given["batch"])
        return WithoutReplacement(size, batch) if name == "without-replacement" else WithReplacement(size, batch)
    if name == "with-replacement":
        raise OptionError("--scheme with-replacement needs --size and --batch, because one record may be drawn several times")
    return WithoutReplacement(rate.denominator, rate.numerator)


def _steps(given: Mapping[str, str], rate: Fraction | None, free: str | None) -> int:
    if free == "steps":
        if "epochs" in given:
            raise OptionError("--epochs is what this command searches for; leave it out")
        return 1
    if "steps" in given and "epochs" in given:
        raise OptionError("--steps and --epochs say the same twice; leave one of them out")
    if "epochs" not in given:
        return numbers.whole("--steps", given["steps"]) if "steps" in given else 1
    if rate is None:
        raise OptionError("--epochs needs to know how many steps are an epoch; add --sampling, or --size and --batch")
    epochs = numbers.exact("--epochs", given["epochs"])
    # an epoch that is not a whole number of batches is cut short, as data loaders do
    if not 1 <= epochs / rate <= 10**15:
        raise OptionError(f"--epochs {shown(given['epochs'])} gives no whole step at this sampling rate; give a larger number, or --steps")
    return int(epochs / rate)


def _allocation(
    given: Mapping[str, str], leaf: Callable[[Number], Event], noise: Number | None, rate: Fraction, asked: Adjacency, free: str | None
) -> Plan:
    """Each record takes part in one step of every epoch; an epoch has as many whole steps as fit, which errs on the expensive side."""
    per_epoch = int(1 / rate)
    scheme = RandomAllocation(per_epoch)
    if free == "steps":
        epochs = _steps(given, rate, free)
    elif "epochs" in given:
        if "steps" in given:
            raise OptionError("--steps and --epochs say the same twice; leave one of them out")
        epochs = numbers.whole("--epochs", given["epochs"])
    else:
        total = numbers.whole("--steps", given["steps"]) if "steps" in given else per_epoch
        epochs, left = divmod(total, per_epoch)
        if left or not epochs:
            raise OptionError(f"--steps must be whole epochs of {per_epoch} steps with --scheme random-allocation; or give --epochs")
    return Plan(lambda sigma: Sampled(scheme, leaf(sigma)), noise, epochs, rate, asked, per_epoch=per_epoch)
