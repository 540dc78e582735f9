"""An evaluation as pictures, as a page and as plain values. Each of them says CURATOR ONLY.

>>> from tacit.synthesis.evaluate import evaluate
>>> found = evaluate({"a": [0, 1] * 20, "b": [1, 1] * 20}, {"a": [0, 1] * 20, "b": [1, 0] * 20})
>>> "CURATOR ONLY" in page(found), as_json(found)["stamp"]
(True, 'CURATOR ONLY')
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.pictures import BLUE, ORANGE, RED, canvas, dress
from tacit.synthesis.evaluate import STAMP, WHY, Evaluation, Grid
from tacit.synthesis.report_page import label, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 12  # columns that are drawn
WORDS = {
    "bins": "values moved by bins, in parts of their range",
    "selection": "what the measured marginals cannot say, even without noise",
    "model": "what the model misses of exact marginals",
    "noise": "what noise adds",
    "rows": "what drawing rows adds",
}


def as_json(found: Evaluation) -> dict[str, Any]:
    """Plain values, stamped."""
    grids = {"associations": found.associations, "correlations": found.correlations}
    return {
        "stamp": STAMP,
        "why": WHY,
        "rows": {"real": found.rows[0], "synthetic": found.rows[1]},
        "total_variation": {
            str(k): {"mean": found.distance(k), "marginals": {" by ".join(name): value for name, value in part.items()}}
            for k, part in found.distances.items()
        },
        **{
            name: {
                "columns": list(grid.columns), "real": grid.real.tolist(), "synthetic": grid.synthetic.tolist(),
                "mean_difference": grid.difference,
            }
            for name, grid in grids.items()
        },
        "utility": [vars(one) for one in found.utility],
        "two_sample_auc": found.two_sample,
        "importance": None if found.importance is None else vars(found.importance),
        "subgroups": [vars(one) for one in found.subgroups],
        "losses": dict(found.losses),
        "target": found.target,
        "notes": list(found.notes),
    }  # fmt: skip


def figures(found: Evaluation) -> dict[str, Figure]:
    """Marginals of single columns, differences of associations, distances by size, importance."""
    drawn: dict[str, Figure] = {"Single columns": _columns(found)}
    if len(found.columns) > 1:
        drawn["Associations (Cramér's V), synthetic less real"] = _grid(found.associations)
    if len(found.correlations.columns) > 1:
        drawn["Correlations, synthetic less real"] = _grid(found.correlations)
    drawn["Total variation of marginals"] = _spread(found)
    if found.importance is not None:
        drawn["What a model goes by"] = _importance(found)
    for figure in drawn.values():
        figure.text(0.995, 0.005, STAMP, ha="right", va="bottom", fontsize=8, color=RED, fontweight="bold")
    return drawn


def _columns(found: Evaluation) -> Figure:
    from matplotlib.figure import Figure

    names = list(found.shares)[:PANELS]
    across = min(3, len(names))
    down = -(-len(names) // across)
    figure = Figure(figsize=(3.1 * across + 0.4, 2.3 * down + 0.5), dpi=150, layout="constrained")
    for place, name in enumerate(names):
        labels, real, made = found.shares[name]
        kept = [i for i in range(len(labels)) if real[i] or made[i] or labels[i] != "missing"]
        ax = figure.add_subplot(down, across, place + 1)
        where = np.arange(len(kept))
        ax.bar(where - 0.2, [real[i] for i in kept], 0.4, color=BLUE, label="real")
        ax.bar(where + 0.2, [made[i] for i in kept], 0.4, color=ORANGE, label="synthetic")
        label(ax, name, [labels[i] for i in kept])
        if place == 0:
            figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    return figure


def _grid(grid: Grid) -> Figure:
    size = max(4.0, 0.4 * len(grid.columns) + 2)
    figure, ax = canvas(None, None, width=size + 1, height=size)
    shown = ax.imshow(grid.synthetic - grid.real, cmap="RdBu_r", vmin=-1, vmax=1)
    names = [short(name, 16) for name in grid.columns]
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=7)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    figure.colorbar(shown, ax=ax, shrink=0.8)
    return figure


def _spread(found: Evaluation) -> Figure:
    figure, ax = canvas(None, None, height=3.0)
    ways = list(found.distances)
    values = [sorted(found.distances[k].values()) for k in ways]
    for place, part in enumerate(values):
        ax.plot(part, np.full(len(part), place), "|", color=BLUE, alpha=0.5, ms=14)
        ax.plot(np.mean(part), place, "o", color=ORANGE)
        ax.annotate(f"mean {np.mean(part):.4f}", (float(np.mean(part)), place), xytext=(4, 9), textcoords="offset points", fontsize=8)
    ax.set_yticks(range(len(ways)), [f"{k} column{'s' if k > 1 else ''}" for k in ways])
    ax.set_ylim(-0.6, len(ways) - 0.2)
    ax.set_xlim(left=0)
    dress(ax, "", "total variation, one mark a marginal", "")
    return figure


def _importance(found: Evaluation) -> Figure:
    assert found.importance is not None
    names = found.importance.columns
    figure, ax = canvas(None, None, height=0.35 * len(names) + 1.2)
    where = np.arange(len(names))
    ax.barh(where - 0.2, found.importance.real, 0.4, color=BLUE, label="trained on real rows")
    ax.barh(where + 0.2, found.importance.synthetic, 0.4, color=ORANGE, label="trained on synthetic rows")
    ax.set_yticks(where, [short(name, 20) for name in names], fontsize=8)
    ax.invert_yaxis()
    ax.legend(fontsize=8)
    dress(ax, "", "loss of score when the column is shuffled", "")
    return figure


def page(found: Evaluation) -> str:
    """A self-contained page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("tacit.synthesis"), autoescape=True, undefined=StrictUndefined)
    pictures = [(title, embedded(figure)) for title, figure in figures(found).items()]
    worst = {k: sorted(part.items(), key=lambda item: -item[1])[:5] for k, part in found.distances.items()}
    template = environment.get_template("evaluation.html")
    return template.render(found=found, stamp=STAMP, why=WHY, pictures=pictures, worst=worst, words=WORDS)


def embedded(figure: Figure) -> str:
    """A figure as the source of an image."""
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=150)
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def write(found: Evaluation, path: str | Path) -> None:
    """The page, or the values."""
    place = Path(path)
    if place.suffix == ".html":
        place.write_text(page(found), encoding="utf-8")
    elif place.suffix == ".json":
        place.write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")
    else:
        raise ParameterError(f"the file name must end in .html or .json, not {place.name!r}")
