"""An audit as a page: what was claimed, what was tried, what was found.

Every report of the audit, on a mechanism or on a model, has a claim, verdicts and findings; the page shows them side by
side, the proof above and the attack below. It cannot be made to say that something is safe.

>>> from tacit.audit.claim import Evidence, judge
>>> verdict = judge(Claim.of(epsilon=1), Evidence("threshold", "worst case", 0.9, 0, 0.95, 1000))
>>> page = Page("a count", Claim.of(epsilon=1), (verdict,), findings=(), warnings=(), how=("two inputs, 1000 runs on each",), broken=False)
>>> "not broken by these attacks" in page.to_html() and " safe" not in page.to_html().lower()
True
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacit.audit.claim import Claim, Verdict, surely

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_TOLD = (
    "An attack that fails proves nothing: another attack, another pair of inputs or more samples may succeed. The proof is the claim's.",
    "The bound is about the inputs that were tried. The claim is about all pairs of neighbours.",
    "Only what the function returns was looked at, unless timing was asked for: not logs, memory, or files it writes.",
)


@dataclass(frozen=True)
class Page:
    """What a report says, ready to be shown."""

    title: str
    claim: Claim
    verdicts: tuple[Verdict, ...]
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    how: tuple[str, ...]
    broken: bool
    figures: Mapping[str, Figure] = field(default_factory=dict, compare=False)
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict, compare=False)

    @property
    def headline(self) -> str:
        """One line."""
        return "BROKEN: an attack beats the claim" if self.broken else "not broken by these attacks, which is no proof"

    def to_html(self) -> str:
        """A self-contained page."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(loader=PackageLoader("tacit.audit"), autoescape=True, undefined=StrictUndefined)
        shown = [
            {
                "attack": verdict.evidence.attack,
                "game": verdict.evidence.game,
                "found": f"{verdict.evidence.measure} ≥ {number(verdict.evidence.lower)}",
                "delta": f"{verdict.evidence.delta:g}",
                "confidence": surely(verdict.evidence.confidence),
                "trials": f"{verdict.evidence.trials:,}",
                "permitted": number(verdict.permitted),
                "share": f"{100 * verdict.share:.0f} %" if verdict.permitted < math.inf else "",
                "broken": verdict.broken,
                "assumptions": verdict.evidence.assumptions,
            }
            for verdict in self.verdicts
        ]
        pictures = [(title, embedded(figure)) for title, figure in self.figures.items()]
        said = {(verdict.evidence.game, verdict.evidence.assumptions) for verdict in self.verdicts}
        one_game = self.verdicts[0].evidence.game if len(said) == 1 else ""
        template = environment.get_template("audit.html")
        return template.render(page=self, verdicts=shown, one_game=one_game, pictures=pictures, not_told=NOT_TOLD)


def number(value: float) -> str:
    """A bound in few digits.

    >>> number(1.23456), number(float("inf"))
    ('1.235', 'anything')
    """
    return "anything" if value == math.inf else f"{value:.4g}"


def finite(value: float) -> float | None:
    """A bound for JSON, which has no infinity: None stands for it."""
    return value if math.isfinite(value) else None


def embedded(figure: Figure) -> str:
    """A picture as an address that needs no file."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.getvalue().encode()).decode()


def tradeoff_figure(claim: Claim, verdicts: Sequence[Verdict], *, smallest: float = 1e-4) -> Figure:
    """The best test the claim permits, and the tests that were found: a point above the line breaks it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    axis = figure.subplots()
    rates = [smallest * (1 / smallest) ** (k / 80) for k in range(81)]
    permitted = [claim.tpr(min(rate, 1 - 1e-12)) for rate in rates]
    axis.plot(rates, permitted, color="#1b6ca8", lw=1.8, label=f"most that {claim.text or 'the claim'} permits")
    axis.plot(rates, rates, color="#888888", lw=1, ls="--", label="guessing")
    for broken, colour, word in ((False, "#2e7d32", "found, within the claim"), (True, "#b3261e", "found, above the claim")):
        points = [v.evidence.point for v in verdicts if v.evidence.point is not None and v.broken is broken]
        if points:
            x, y = [max(p.fpr, smallest) for p in points], [max(p.tpr, smallest) for p in points]
            axis.plot(x, y, "o", ms=6, color=colour, label=word, clip_on=False)
    axis.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1))
    axis.set(xlabel="false positive rate, at most", ylabel="true positive rate, at least")
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    axis.spines[["top", "right"]].set_visible(False)
    return figure
