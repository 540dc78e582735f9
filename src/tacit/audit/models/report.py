"""One call on any training: attacks in a stated game, held against a claim, as a report that cannot say too much.

A report names for each attack its signal and its two worlds, and the game: what was fixed and what was fresh. Without
them it is not made. It alarms when an attack beats what the claim permits; otherwise it says which attacks failed,
never that nothing can succeed.

>>> import numpy as np
>>> from tacit.audit.experiment import generator
>>> x = generator(1).normal(size=(400, 3)); y = (x[:, 0] > 0).astype(int)
>>> class Nearest:  # memorises its data
...     def __init__(self, data):
...         self.x, self.y = data
...     def predict_proba(self, x):
...         apart = ((x[:, None] - self.x[None]) ** 2).sum(axis=2)
...         known = np.exp(-apart.min(axis=1)) * 0.5 + 0.5
...         one = np.where(self.y[apart.argmin(axis=1)] == 1, known, 1 - known)
...         return np.column_stack([1 - one, one])
>>> report = audit_model(Nearest, (x, y), claim="eps=1", seed=2, references=0)
>>> report.broken, report.worst.evidence.lower > 2
(True, True)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import GDP, ZCDP, Adjacency, ApproxDP, Guarantee, ParameterError, PureDP
from tacit.audit.claim import Claim, Verdict, held_against
from tacit.audit.models.canaries import group_delta
from tacit.audit.models.games import Adversary, Game, GameResult, MembershipGame, Train, size_of, take
from tacit.audit.models.membership import (
    Attack,
    CalibratedAttack,
    GapAttack,
    LikelihoodRatioAttack,
    LossAttack,
    PopulationAttack,
    Reference,
    ReferenceAttack,
    RobustAttack,
)
from tacit.audit.models.roc import USUAL, per_group, per_record_risk, roc_figure, summary
from tacit.audit.models.signals import LOSS, SQUARED_ERROR, Records, Signal
from tacit.audit.page import Page, finite
from tacit.parameters import count, probability

SEARCHED = 16  # models, at the least, that a record is chosen by where none is named
SHARE = 0.375  # of the population that is trained on, on average, in the fixed-model game; as much is held out, a quarter calibrates


@dataclass(frozen=True)
class ModelReport:
    """What was claimed, which attacks were tried in which game, and what they found."""

    claim: Claim
    permitted_under: Claim
    results: tuple[GameResult, ...]
    verdicts: tuple[Verdict, ...]
    confidence: float
    title: str = "a training"
    trainings: int = 0
    groups: dict[Hashable, float] = field(default_factory=dict, compare=False)
    exposed: tuple[tuple[int, float], ...] = ()
    record: int | None = None

    def __post_init__(self) -> None:
        if not self.results or len(self.results) != len(self.verdicts):
            raise ParameterError("a report needs at least one attack, and a verdict on each")
        for result in self.results:
            if not isinstance(result.game, Game) or not result.attack.strip():
                raise ParameterError("a report must name the attack and the game of every result: without them its figures say nothing")

    @property
    def broken(self) -> bool:
        """Whether an attack beat the claim."""
        return any(verdict.broken for verdict in self.verdicts)

    @property
    def worst(self) -> Verdict:
        """The verdict with the largest bound, a broken one before all others."""
        return max(self.verdicts, key=lambda verdict: (verdict.broken, verdict.evidence.lower))

    @property
    def game(self) -> str:
        """What was fixed and what was fresh."""
        return self.results[0].describe()

    def to_json(self) -> dict[str, object]:
        """Plain values, for a file or another program."""
        return {
            "title": self.title,
            "claim": self.claim.to_json(),
            "permitted_under": self.permitted_under.describe(),
            "game": self.game,
            "record": self.record,
            "broken": self.broken,
            "confidence": self.confidence,
            "trainings": self.trainings,
            "attacks": [
                {
                    "attack": result.attack,
                    "measure": verdict.evidence.measure,
                    "lower": finite(verdict.evidence.lower),
                    "delta": verdict.evidence.delta,
                    "confidence": verdict.evidence.confidence,
                    "permitted": finite(verdict.permitted),
                    "broken": verdict.broken,
                    "assumptions": list(verdict.evidence.assumptions),
                    **summary(result.roc, self.confidence),
                }
                for result, verdict in zip(self.results, self.verdicts, strict=True)
            ],
            "groups": {str(name): auc for name, auc in self.groups.items()},
            "most_exposed": [{"record": record, "risk": risk} for record, risk in self.exposed],
        }

    def page(self) -> Page:
        """The report as a page with pictures: curves on logarithmic axes under the most that the claim permits."""
        head = ("attack", "area", "accuracy", "advantage", *(f"TPR at FPR {rate:g}" for rate in USUAL))
        rows = [head]
        for result in self.results:
            curve = result.roc
            cells = []
            for rate in USUAL:
                at = curve.tpr_at(rate, self.confidence)
                cells.append(f"{at.tpr:.3g} ({at.tpr_interval[0]:.2g} to {at.tpr_interval[1]:.2g})")
            rows.append((_short(result.attack), f"{curve.auc:.3f}", f"{curve.accuracy:.3f}", f"{curve.advantage:.3f}", *cells))
        tables: dict[str, Sequence[Sequence[str]]] = {"Estimates, which prove nothing": rows}
        if self.groups:
            tables["By group: area under the curve of the strongest attack"] = [
                ("group", "area"), *((str(name), f"{auc:.3f}") for name, auc in self.groups.items())
            ]  # fmt: skip
        if self.exposed:
            tables["The most exposed records"] = [
                ("record (row of the data)", "risk"), *((str(i), f"{risk:.2f}") for i, risk in self.exposed)
            ]  # fmt: skip
        curves, confidence = {_short(result.attack): result.roc for result in self.results}, self.confidence
        return Page(
            self.title,
            self.claim,
            self.verdicts,
            findings=(),
            warnings=()
            if self.permitted_under == self.claim
            else (f"the game replaces one record; attacks are held against {self.permitted_under.text}",),
            how=(
                f"game: {self.game}",
                f"{self.trainings:,} trainings",
                *(f"attack: {result.attack}" for result in self.results),
            ),
            broken=self.broken,
            figures={"What the attacks reached, and the most that is permitted": roc_figure(curves, self._curve(), confidence=confidence)},
            tables=tables,
        )

    def _curve(self) -> Claim | None:
        return self.permitted_under if isinstance(self.permitted_under.event, PureDP | ApproxDP | GDP) else None

    def to_html(self) -> str:
        """A self-contained page."""
        return self.page().to_html()

    def __str__(self) -> str:
        head = "BROKEN" if self.broken else "not broken by these attacks (no proof)"
        about = "" if self.record is None else f"; the record is row {self.record}"
        lines = [f"{self.claim.describe()}: {head}", f"- {self.worst}", f"- game: {self.game}{about}"]
        for result in self.results:
            at = result.roc.tpr_at(0.01)
            lines.append(f"- {_short(result.attack)}: area {result.roc.auc:.3f}, true positives {at.tpr:.1%} at 1% false ones")
        return "\n".join(lines)


def _short(attack: str) -> str:
    return attack.partition(" (")[0]


def replaced(claim: Claim) -> Claim:
    """What a claim says about two data sets that differ in one record replaced: under add-remove, one is removed and one added.

    What is widened comes out as a promise of twice as much, labelled and worded; a claim about replacement is left as it is.

    >>> wide = replaced(Claim.of(epsilon=1))
    >>> wide.epsilon(0), wide.describe()
    (2.0, 'epsilon 2 when one record is replaced, from epsilon 1 (add-remove)')
    """
    event, given = claim.event, claim.text or repr(claim.event)
    if claim.adjacency is Adjacency.REPLACE_ONE:
        return claim
    if isinstance(event, GDP):
        wide = Claim.of(mu=2 * float(event.mu))
    elif isinstance(event, ZCDP):
        wide = Claim.of(rho=4 * float(event.rho))
    elif isinstance(event, PureDP):
        wide = Claim.of(epsilon=2 * float(event.epsilon))
    elif isinstance(event, ApproxDP):
        # made by hand, because two records may have a delta of 1, which no guarantee has
        epsilon, delta = 2 * float(event.epsilon), group_delta(float(event.epsilon), float(event.delta), 2)
        wide = Claim(ApproxDP(epsilon, delta), text=f"epsilon {epsilon:g} at delta {delta:g}")
    else:
        raise ParameterError(
            "what this claim says about a replaced record is not known; state it as eps, mu or rho, or choose a game that adds a record"
        )
    return Claim(wide.event, Adjacency.ADD_REMOVE, f"{wide.text} when one record is replaced, from {given}")


def usual_attacks(references: int, *, population: bool, signal: Signal = LOSS) -> list[Attack]:
    """The attacks that can be run with what is there.

    >>> [attack.name for attack in usual_attacks(0, population=True)]
    ['loss threshold', 'gap', 'population']
    """
    found: list[Attack] = [LossAttack(signal)]
    labelled = signal is not SQUARED_ERROR
    found += [GapAttack()] if labelled else []
    found += [PopulationAttack(signal)] if population else []
    if references >= 2:
        found += [CalibratedAttack(signal), ReferenceAttack(signal)]
        if labelled:
            found += [LikelihoodRatioAttack()] + ([RobustAttack()] if population else [])
    return found


def audit_model(
    train: Train, data: Records, claim: Claim | Guarantee | str, *,
    attacks: Sequence[Attack | Adversary] | None = None, game: Game | str = Game.FIXED_MODEL,
    runs: int | None = None, size: int | None = None, references: int = 8, record: int | None = None,
    groups: Sequence[Hashable] | None = None, signal: Signal = LOSS, confidence: float = 0.95,
    seed: int | None = None, workers: int = 1, progress: bool = False, title: str | None = None,
) -> ModelReport:
    """Attack `train(data) -> model` and hold what is found against the claim.

    In the fixed-model game (the default) one model is trained on candidates chosen by coins, `references` more serve the attacker, and
    `runs` is how many candidates are asked about (all, if not given). In the other games `runs` models are trained (200, if not given),
    half with the record and half without, and `references` more serve the attacker. `record` is the row that the games with a fixed
    record are about; without it, the row is taken whose presence shows most in models trained for that alone. The stated confidence
    is that of the whole report. `groups` names a group for each record.
    """
    promised = claim if isinstance(claim, Claim) else Claim.of(claim)
    if promised.adjacency is Adjacency.ZERO_OUT:
        raise ParameterError("models are attacked under add-remove or replace-one; state the claim for one of them")
    which, total = Game(game), size_of(data)
    fixed = which is Game.FIXED_MODEL
    replace = promised.adjacency is Adjacency.REPLACE_ONE
    if record is not None and not 0 <= record < total:
        raise ParameterError(f"record must be a row of the data, from 0 to {total - 1}, not {record}")
    searched = 0
    # An adversary of one's own may take models that have no loss, so the search is for attacks that read a signal.
    reads = attacks is None or any(isinstance(one, Attack) for one in attacks)
    if record is None and which in (Game.FIXED_RECORD, Game.WORST_CASE) and references and reads:
        searched = max(references, SEARCHED)
        record = most_exposed(train, data, searched, signal=signal, seed=seed, workers=workers, progress=progress)
    trained_on = (max(1, int(SHARE * total)) if fixed else max(1, (total - 2) // 2)) if size is None else size
    table = MembershipGame(
        train, data, trained_on, which, record=record, replace=replace and which is not Game.AVERAGE, seed=seed, workers=workers,
        progress=progress,
    )  # fmt: skip
    wanted = attacks is None or any(isinstance(one, Attack) and one.references_needed for one in attacks)
    helpers, inside, rest = _helpers(table, references if wanted else 0, data)
    chosen = list(attacks) if attacks is not None else usual_attacks(len(helpers), population=rest is not None, signal=signal)
    if not chosen:
        raise ParameterError("at least one attack is needed; leave attacks out for the usual ones")
    trials = (len(table.candidates) if fixed else 200) if runs is None else count("runs", runs, least=2)
    results = table.run_all(chosen, trials, references=helpers, inside=inside, population=rest)
    under = replaced(promised) if replace or which is Game.AVERAGE else promised
    each = 1 - (1 - float(probability("confidence", confidence))) / len(results)
    verdicts = tuple(
        held_against(under, one.evidence(delta=under.delta, confidence=each, measure=under.measure, seed=seed))
        for one in results
    )
    strongest = max(results, key=lambda result: result.roc.auc)
    named = {} if groups is None else per_group(strongest.scores, strongest.bits, [groups[i] for i in strongest.records.tolist()])
    return ModelReport(
        promised, under, tuple(results), verdicts, float(confidence),
        title=title or str(getattr(train, "__name__", type(train).__name__)),
        trainings=(1 if fixed else trials) + len(helpers) + searched,
        groups={name: curve.auc for name, curve in named.items()},
        exposed=_exposed(table, helpers, inside, data, signal) if fixed else (),
        record=table.record if which in (Game.FIXED_RECORD, Game.WORST_CASE) else None,
    )  # fmt: skip


def most_exposed(
    train: Train, data: Records, models: int, *, signal: Signal = LOSS, seed: int | None = None,
    workers: int = 1, progress: bool = False,
) -> int:
    """The row whose presence changes its own signal most, in models trained on random halves of the data.

    These models serve the choice alone, so that what a game finds afterwards is about a record fixed before it.
    """
    halves = MembershipGame(
        train, data, size_of(data) // 2, Game.FIXED_MODEL, seed=None if seed is None else seed + 1_000_003,
        workers=workers, progress=progress,
    )  # fmt: skip
    found, inside = halves.train_references(models)
    signals = np.array([signal(model, take(data, halves.candidates)) for model in found])
    counted = np.maximum(inside.sum(axis=0), 1), np.maximum((~inside).sum(axis=0), 1)
    gap = np.where(inside, signals, 0).sum(axis=0) / counted[0] - np.where(inside, 0, signals).sum(axis=0) / counted[1]
    known = inside.any(axis=0) & (~inside).any(axis=0)
    return int(halves.candidates[int(np.argmax(np.where(known, gap, -np.inf)))])


def _helpers(
    table: MembershipGame, references: int, data: Records
) -> tuple[list[Reference], NDArray[np.bool_] | None, Records]:
    """Reference models with their members, who was inside them, and records of the population to compare with.

    In the fixed-model and worst-case games the target has certainly not seen these records. In the others its data
    are fresh, so that they are typical of the population and a few of them may be inside, which weakens an attack a little.
    """
    total = size_of(data)
    rows = table.candidates if table.game is Game.FIXED_MODEL else np.arange(total)
    seen = [table.record]
    if table.game is Game.FIXED_MODEL:
        seen = rows.tolist()
    elif table.game is Game.WORST_CASE:
        seen += [*table.dataset.tolist(), table.filler]
    left = np.setdiff1d(np.arange(total), np.array(seen, dtype=np.int64))
    rest = take(data, left) if len(left) else None
    if references == 0:
        return [], None, rest
    models, inside = table.train_references(references)
    shadows = [
        Reference(model, take(data, rows[row]), take(data, rows[~row])) for model, row in zip(models, inside, strict=True)
    ]
    return shadows, inside, rest


def _exposed(
    table: MembershipGame, helpers: list[Reference], inside: NDArray[np.bool_] | None, data: Records, signal: Signal,
    most: int = 10,
) -> tuple[tuple[int, float], ...]:
    """The records whose presence shows most over the reference models, by row of the data."""
    if len(helpers) < 4 or inside is None:
        return ()
    records = take(data, table.candidates)
    risk = per_record_risk(np.array([signal(one.model, records) for one in helpers]), inside)
    order = np.argsort(-risk, kind="stable")[:most]
    return tuple((int(table.candidates[i]), float(risk[i])) for i in order)
