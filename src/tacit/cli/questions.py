"""The commands themselves: read the plan, ask the accountant, print the answer.

>>> epsilon({"noise": "1", "delta": ["1e-5"], "as_json": True})
{"lower": 4.377..., "upper": 4.377..., "method": "closed form", "delta": 1e-05, ...}
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting import METHODS, Account, Bound, Estimate, account, calibrate
from tacit.accounting import compare as compare_theorems
from tacit.accounting.compare import Comparison, Inapplicable, rounded_up
from tacit.cli import numbers, output
from tacit.cli.numbers import OptionError, shown
from tacit.cli.plan import Plan, read_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Options = Mapping[str, Any]


def epsilon(options: Options) -> None:
    """`tacit epsilon`."""
    check_plot(options)
    deltas = numbers.several("--delta", options.get("delta"), numbers.probability, "1e-5")
    method = _method(options)
    cost = _cost(read_plan(options))
    with output.working("pricing"):
        found: list[Bound | Estimate] = [cost.epsilon(d, method=method, certify=bool(options.get("certify"))) for d in deltas]
    known = [(f.upper, d) for f, d in zip(found, deltas, strict=True) if isinstance(f, Bound)]
    _answer(options, cost, "delta", deltas, found, "epsilon = {} at delta = ", known)
    first = found[0]
    mark = (first.upper, deltas[0]) if isinstance(first, Bound) and math.isfinite(first.upper) else None
    _draw(options, lambda: _cost_picture(cost, mark))


def delta(options: Options) -> None:
    """`tacit delta`."""
    check_plot(options)
    epsilons = numbers.several("--epsilon", options.get("epsilon"), _finite, "1")
    cost = _cost(read_plan(options))
    with output.working("pricing"):
        found = [cost.delta(e, certify=bool(options.get("certify"))) for e in epsilons]
    known = [(e, f.upper) for f, e in zip(found, epsilons, strict=True)]
    _answer(options, cost, "epsilon", epsilons, found, "delta = {} at epsilon = ", known)
    mark = (epsilons[0], found[0].upper) if epsilons[0] >= 0 and found[0].upper > 0 else None
    _draw(options, lambda: _cost_picture(cost, mark))


def noise(options: Options) -> None:
    """`tacit noise`."""
    check_plot(options)
    goal, level, method = _target(options)
    plan = read_plan(options, free="noise")
    with output.working("searching"):
        sigma = calibrate(lambda x: plan.event(noise=x), epsilon=goal, delta=level, method=method, **_relation(plan))
        cost = account(plan.event(noise=sigma), **_relation(plan))
        spent = cost.bound(level, method)
    if options.get("as_json"):
        _print_search(cost, spent, {"noise": sigma, "target_epsilon": goal, "delta": level})
    else:
        out = output.console()
        out.print(f"noise = {rounded_up(sigma, 10)} for epsilon = {goal:g} at delta = {level:g}", style="bold")
        _spent(cost, spent, level)
    _draw(options, lambda: _cost_picture(cost, (spent.upper, level) if level else None))


def steps(options: Options) -> None:
    """`tacit steps`."""
    check_plot(options)
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
    if options.get("as_json"):
        _print_search(cost, spent, {"steps": total, "epochs": epochs, "target_epsilon": goal, "delta": level})
    else:
        out = output.console()
        passes = "" if epochs is None else f" ({epochs:,.4g} epochs)"
        out.print(f"steps = {total:,}{passes} for epsilon = {goal:g} at delta = {level:g}", style="bold")
        _spent(cost, spent, level)

    def picture() -> Figure:
        from tacit.accounting.plots import plot_training

        if plan.null_record or not level:
            return _cost_picture(cost, (spent.upper, level) if level else None)
        figure = plot_training(lambda n: plan.event(steps=n), max(1, count), level, adjacency=plan.adjacency, target=goal)
        if plan.per_epoch > 1:
            figure.axes[0].set_xlabel("epochs")
        return figure

    _draw(options, picture)


def curve(options: Options) -> None:
    """`tacit curve`."""
    check_plot(options)
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
    _draw(options, lambda: _cost_picture(cost, None))


def compare(options: Options) -> None:
    """`tacit compare`."""
    check_plot(options)
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
    _draw(options, table.plot)


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


def _relation(plan: Plan) -> dict[str, Any]:
    return {"adjacency": plan.adjacency, "null_record": plan.null_record}


def _cost(plan: Plan) -> Account:
    return account(plan.event(), **_relation(plan))


def _answer(
    options: Options,
    cost: Account,
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


def _words(cost: Account, known: Sequence[tuple[float, float]]) -> None:
    out = output.console()
    with output.working("putting it into words"):
        lines = output.plain_words(cost, known)
    out.print("\nIn plain words", style="bold")
    for line in lines:
        out.print(f"  {line}")


def _print_search(cost: Account, spent: Bound, found: dict[str, Any]) -> None:
    output.print_json({**found, **output.figure(spent), **output.context(cost)})


def _spent(cost: Account, spent: Bound, level: float) -> None:
    out = output.console()
    out.print(f"  spends     epsilon = {rounded_up(spent.upper, 10)} at delta = {level:g}")
    out.print(f"  method     {spent.method}")
    output.print_context(out, cost)
    _words(cost, [(spent.upper, level)])


def _attacks(cost: Account, rates: Sequence[float], epsilons: Sequence[float], found: Sequence[Bound], seconds: float) -> list[float]:
    """Valid upper ends of the true-positive rate, from the points at hand and, unless those took long, a finer sweep of the profile."""
    import numpy as np

    from tacit.accounting.best_attack import attack_rate

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


def _draw(options: Options, picture: Callable[[], Figure]) -> None:
    """Draw and save the picture; say where it is, on the error stream if the output is JSON."""
    if options.get("plot") is None:
        return
    with output.working("drawing"):
        figure = picture()
    save(figure, str(options["plot"]))
    if not options.get("as_json"):
        output.console().print(f"\npicture in {options['plot']}")


def save(figure: Figure, name: str) -> None:
    """Write a picture; what prevents it is said in one line."""
    try:
        figure.savefig(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise OptionError(f"--plot: cannot write {shown(name)}: {reason}") from None


def _cost_picture(cost: Account, mark: tuple[float, float] | None) -> Figure:
    from tacit.accounting.plots import plot_cost

    return plot_cost(cost, mark=mark)
