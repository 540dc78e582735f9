"""The commands that ask the accountant: epsilon, delta, noise, steps, curve and compare.

`read_plan` turns the options of a command into the event to price. `ask` prices it, prints the answer and
draws the picture, if one is wanted. No data is involved.

>>> ask("epsilon", {"noise": "1", "delta": ["1e-5"], "as_json": True})
{"lower": 4.377..., "upper": 4.377..., "method": "closed form", "delta": 1e-05, ...}
>>> plan = read_plan({"noise": "1.1", "sampling": "256/60000", "epochs": "60"})
>>> plan.event()
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(8, 1875)), event=Gaussian(noise_multiplier=1.1)), count=14062)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting import (
    METHODS,
    AccountingError,
    Adjacency,
    ApproxDP,
    Bound,
    Comparison,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Estimate,
    Event,
    Exponential,
    Gaussian,
    Group,
    Inapplicable,
    Laplace,
    Leaf,
    Poisson,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    Scheme,
    Staircase,
    WithoutReplacement,
    WithReplacement,
    account,
    calibrate,
    from_json,
    rounded_up,
)
from tacit.accounting import compare as compare_theorems
from tacit.cli import options as numbers
from tacit.cli import output
from tacit.cli.options import OptionError, option_name, shown
from tacit.parameters import Number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
class RepeatedStep:
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


def read_plan(options: Mapping[str, Any], *, free: str | None = None) -> RepeatedStep:
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


def _from_file(given: Mapping[str, str], free: str | None) -> RepeatedStep:
    if free == "noise":
        raise OptionError("--event fixes the noise; to search for it describe the event with --mechanism and --sampling")
    if twice := [option_name(name) for name in _DESCRIBING if name in given]:
        raise OptionError(f"--event already says what is done to the data; leave out {', '.join(twice)}")
    steps = numbers.whole("--steps", given["steps"]) if "steps" in given else 1
    event = read_event(given["event"])
    return RepeatedStep(lambda _: event, None, steps, adjacency=_adjacency(given))


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


def _from_options(given: Mapping[str, str], free: str | None) -> RepeatedStep:
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

    return RepeatedStep(step, noise, steps, rate, asked)


def _usual_adjacency(mechanism: str, scheme: str) -> Adjacency:
    """The relation that a mechanism or a sampler is proved for, where no other is asked for."""
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
) -> RepeatedStep:
    """Each record takes part in one step of every epoch; an epoch has as many whole steps as fit, which errs on the expensive side."""
    per_epoch = int(1 / rate)
    scheme = RandomAllocation(per_epoch)
    if free == "steps" or {"steps", "epochs"} <= set(given):
        epochs = _steps(given, rate, free)  # which refuses the second
    elif "epochs" in given:
        epochs = numbers.whole("--epochs", given["epochs"])
    else:
        total = numbers.whole("--steps", given["steps"]) if "steps" in given else per_epoch
        epochs, left = divmod(total, per_epoch)
        if left or not epochs:
            raise OptionError(f"--steps must be whole epochs of {per_epoch} steps with --scheme random-allocation; or give --epochs")
    return RepeatedStep(lambda sigma: Sampled(scheme, leaf(sigma)), noise, epochs, rate, asked, per_epoch=per_epoch)


# --- commands: each prints its answer, and returns the picture that goes with it ---------------------------

Options = Mapping[str, Any]
Picture = Callable[[], "Figure"]


def ask(command: str, options: Options) -> None:
    """Run a command of this module by its name, and draw its picture if `--plot` is given."""
    check_plot(options)
    picture = COMMANDS[command](options)
    if options.get("plot") is None:
        return
    with output.working("drawing"):
        figure = picture()
    save(figure, str(options["plot"]))
    if not options.get("as_json"):
        output.console().print(f"\npicture in {options['plot']}")


def epsilon(options: Options) -> Picture:
    """`tacit epsilon`."""
    deltas = numbers.several("--delta", options.get("delta"), numbers.probability, "1e-5")
    method = _method(options)
    cost = _cost(read_plan(options))
    with output.working("pricing"):
        found: list[Bound | Estimate] = [cost.epsilon(d, method=method, certify=bool(options.get("certify"))) for d in deltas]
    known = [(f.upper, d) for f, d in zip(found, deltas, strict=True) if isinstance(f, Bound)]
    _answer(options, cost, "delta", deltas, found, "epsilon = {} at delta = ", known)
    first = found[0]
    mark = (first.upper, deltas[0]) if isinstance(first, Bound) and math.isfinite(first.upper) else None
    return _cost_picture(cost, mark)


def delta(options: Options) -> Picture:
    """`tacit delta`."""
    epsilons = numbers.several("--epsilon", options.get("epsilon"), _finite, "1")
    cost = _cost(read_plan(options))
    with output.working("pricing"):
        found = [cost.delta(e, certify=bool(options.get("certify"))) for e in epsilons]
    known = [(e, f.upper) for f, e in zip(found, epsilons, strict=True)]
    _answer(options, cost, "epsilon", epsilons, found, "delta = {} at epsilon = ", known)
    mark = (epsilons[0], found[0].upper) if epsilons[0] >= 0 and found[0].upper > 0 else None
    return _cost_picture(cost, mark)


def noise(options: Options) -> Picture:
    """`tacit noise`."""
    goal, level, method = _target(options)
    plan = read_plan(options, free="noise")
    with output.working("searching"):
        sigma = calibrate(lambda x: plan.event(noise=x), epsilon=goal, delta=level, method=method, **_relation(plan))
        cost = account(plan.event(noise=sigma), **_relation(plan))
        spent = cost.bound(level, method)
    record = {"noise": sigma, "target_epsilon": goal, "delta": level}
    _searched(options, cost, spent, record, f"noise = {rounded_up(sigma, 10)}")
    return _cost_picture(cost, (spent.upper, level) if level else None)


def steps(options: Options) -> Picture:
    """`tacit steps`."""
    goal, level, method = _target(options)
    plan = read_plan(options, free="steps")
    with output.working("searching"):
        # a search that starts at an epoch passes over the few first steps, where sampled losses are hardest to compose
        start = float(max(1, min(10**6, int(1 / plan.rate)))) if plan.rate is not None and plan.per_epoch == 1 else 1.0
        found = calibrate(
            lambda n: plan.event(steps=int(n)), epsilon=goal, delta=level, method=method, start=start, integer=True, **_relation(plan)
        )
        count = int(found)
        cost = account(plan.event(steps=count), **_relation(plan))
        spent = cost.bound(level, method)
    total = count * plan.per_epoch
    epochs = float(total * plan.rate) if plan.rate is not None else None
    record = {"steps": total, "epochs": epochs, "target_epsilon": goal, "delta": level}
    passes = "" if epochs is None else f" ({epochs:,.4g} epochs)"
    _searched(options, cost, spent, record, f"steps = {total:,}{passes}")
    if plan.null_record or not level:
        return _cost_picture(cost, (spent.upper, level) if level else None)

    def picture() -> Figure:
        from tacit.accounting import plot_training

        figure = plot_training(lambda n: plan.event(steps=n), max(1, count), level, adjacency=plan.adjacency, target=goal)
        if plan.per_epoch > 1:
            figure.axes[0].set_xlabel("epochs")
        return figure

    return picture


def curve(options: Options) -> Picture:
    """`tacit curve`."""
    cost = _cost(read_plan(options))
    with output.working("pricing"):
        if options.get("epsilon"):
            epsilons = numbers.several("--epsilon", options["epsilon"], _finite, "1")
        else:
            end = cost.epsilon(1e-10).upper
            epsilons = [(end if 0 < end < math.inf else 10.0) * i / 10 for i in range(11)]
        began = time.perf_counter()
        found = cost.profile(epsilons)
        rates = [1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5]
        attacks = _attacks(cost, rates, epsilons, found, time.perf_counter() - began)
    if options.get("as_json"):
        profile = {"epsilon": epsilons, "lower": [f.lower for f in found], "upper": [f.upper for f in found]}
        tradeoff = {"fpr": rates, "tpr_upper": attacks}
        output.print_json({**profile, "method": found[0].method, "tradeoff": tradeoff, **output.context(cost)})
    else:
        out = output.console()
        out.print("Privacy profile", style="bold")
        rows = [(f"{e:.6g}", output.rounded_down(f.lower, 8), rounded_up(f.upper, 8)) for e, f in zip(epsilons, found, strict=True)]
        output.print_table(out, ["epsilon", "delta at least", "delta at most"], rows)
        out.print("\nMembership attack", style="bold")
        pairs = [(f"{a:g}", rounded_up(t, 4)) for a, t in zip(rates, attacks, strict=True)]
        output.print_table(out, ["false-positive rate", "true-positive rate at most"], pairs)
        out.print("")
        out.print(f"  method     {found[0].method}")
        output.print_context(out, cost)
    return _cost_picture(cost, None)


def compare(options: Options) -> Picture:
    """`tacit compare`."""
    deltas = numbers.several("--delta", options.get("delta"), numbers.probability, "1e-5")
    plan = read_plan(options)
    with output.working("comparing"):
        table = compare_theorems(plan.event(), deltas, **_relation(plan))
    first = table.rows[0].figures[0]
    if isinstance(first, Inapplicable):  # not even the default has an answer: say why
        raise OptionError(first.reason)
    if options.get("as_json"):
        rows = [{"method": row.method, "description": row.description, "figures": [_cell(f) for f in row.figures]} for row in table.rows]
        event = {"adjacency": table.adjacency.value, "event": output.event_object(table.event)}
        output.print_json({**output.figure(first), "delta": deltas[0], "deltas": deltas, "rows": rows, **event})
    else:
        _print_comparison(table)
    return table.plot


COMMANDS = {one.__name__: one for one in (epsilon, delta, noise, steps, curve, compare)}


# --- parts ------------------------------------------------------------------------------------------------------------------------


def _finite(option: str, text: str) -> float:
    return float(numbers.number(option, text))


def _method(options: Options) -> str | None:
    name = options.get("method")
    if name is None:
        return None
    chosen = str(name).strip().lower()
    if chosen not in METHODS:
        raise OptionError(f"--method must be one of {', '.join(METHODS)}, not {shown(name)}")
    if options.get("certify") and chosen != "pld":
        raise OptionError("--certify proves the exact figure; leave --method out")
    return chosen


def _target(options: Options) -> tuple[float, float, str | None]:
    """Epsilon and delta of a search, and the theorem to use."""
    if options.get("epsilon") is None:
        raise OptionError("--epsilon is missing; give the target, for example --epsilon 1 --delta 1e-6")
    method = _method(options)
    if method == "central-limit":
        raise OptionError("--method central-limit is an estimate and cannot hold a target; use rdp-improved or leave --method out")
    goal = float(numbers.positive("--epsilon", options["epsilon"]))
    return goal, numbers.probability("--delta", options.get("delta") or "0"), method


def _relation(plan: RepeatedStep) -> dict[str, Any]:
    return {"adjacency": plan.adjacency, "null_record": plan.null_record}


def _cost(plan: RepeatedStep) -> Cost:
    return account(plan.event(), **_relation(plan))


def _answer(
    options: Options,
    cost: Cost,
    asked: str,
    values: Sequence[float],
    found: Sequence[Bound | Estimate],
    headline: str,
    known: Sequence[tuple[float, float]],
) -> None:
    """Print figures: the first is the answer; JSON lists all of them as well."""
    if options.get("as_json"):
        results = [{asked: v, **output.figure(f)} for v, f in zip(values, found, strict=True)]
        output.print_json({**output.figure(found[0]), asked: values[0], "results": results, **output.context(cost)})
        return
    out = output.console()
    for value, one in zip(values, found, strict=True):
        output.print_figure(out, f"{headline}{value:g}", one)
    output.print_context(out, cost)
    _words(cost, known)


def _words(cost: Cost, known: Sequence[tuple[float, float]]) -> None:
    out = output.console()
    with output.working("putting it into words"):
        lines = output.plain_words(cost, known)
    out.print("\nIn plain words", style="bold")
    for line in lines:
        out.print(f"  {line}")


def _searched(options: Options, cost: Cost, spent: Bound, found: Mapping[str, Any], headline: str) -> None:
    """Print what a search found, and what it spends."""
    if options.get("as_json"):
        output.print_json({**found, **output.figure(spent), **output.context(cost)})
        return
    out, level = output.console(), found["delta"]
    out.print(f"{headline} for epsilon = {found['target_epsilon']:g} at delta = {level:g}", style="bold")
    out.print(f"  spends     epsilon = {rounded_up(spent.upper, 10)} at delta = {level:g}")
    out.print(f"  method     {spent.method}")
    output.print_context(out, cost)
    _words(cost, [(spent.upper, level)])


def _attacks(cost: Cost, rates: Sequence[float], epsilons: Sequence[float], found: Sequence[Bound], seconds: float) -> list[float]:
    """Valid upper ends of the true-positive rate, from the points at hand and, unless those took long, a finer sweep of the profile."""
    import numpy as np

    from tacit.accounting import attack_rate

    points = [(e, f.upper) for e, f in zip(epsilons, found, strict=True) if e >= 0]
    if seconds < 0.2 * len(epsilons) or not points:
        end = cost.epsilon(1e-6).upper
        sweep = np.linspace(0.0, min(end, 40.0) if end > 0 else 1.0, 50)
        points += [(float(e), cost.delta(float(e)).upper) for e in sweep]
    grid, deltas = np.array(points).T
    return [float(t) for t in attack_rate(np.array(rates), grid, deltas)]


def _cell(figure: Bound | Estimate | Inapplicable) -> dict[str, Any]:
    return {"inapplicable": figure.reason} if isinstance(figure, Inapplicable) else output.figure(figure)


def _print_comparison(table: Comparison) -> None:
    out = output.console()
    head, *lines = table.to_text().splitlines()
    out.print(head, style="bold")
    for line in lines:
        out.print(line)
    out.print("")
    out.print(f"event     {table.event!r}")
    out.print(f"relation  {output.RELATIONS[table.adjacency]}")


# --- pictures ---------------------------------------------------------------------------------------------------------------------


def check_plot(options: Options) -> None:
    """Refuse a bad file name before the work."""
    if options.get("plot") is None:
        return
    name = str(options["plot"])
    if not name.lower().endswith((".png", ".pdf", ".svg")):
        raise OptionError(f"--plot must be a file that ends in .png, .pdf or .svg, not {shown(name)}")
    if "\x00" in name or not Path(name).parent.is_dir():
        raise OptionError(f"--plot: cannot write {shown(name)}: there is no such folder")


def save(figure: Figure, name: str) -> None:
    """Write a picture; what prevents it is said in one line."""
    try:
        figure.savefig(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise OptionError(f"--plot: cannot write {shown(name)}: {reason}") from None


def _cost_picture(cost: Cost, mark: tuple[float, float] | None) -> Picture:
    def picture() -> Figure:
        from tacit.accounting import plot_cost

        return plot_cost(cost, mark=mark)

    return picture
