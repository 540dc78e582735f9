"""One call on any function of a data set: replay, search, low bits and, if wanted, the clock, held against a claim.

Pairs of inputs are tried on few samples first; those that look worst are sampled afresh, so that picking them costs no
confidence. The stated confidence is that of the whole report: a claim that holds is called broken with probability at
most 1 - confidence. A report in which nothing is broken says which attacks failed on which inputs. It is no proof.

>>> from tacit.noise import discrete_laplace
>>> def count(rows):
...     return len(rows) + discrete_laplace(1)  # epsilon 1
>>> pair = ([1, 2, 3], [1, 2])
>>> audit_mechanism(count, "eps=1", neighbours=[pair], trials=1000, seed=1).broken
False
>>> report = audit_mechanism(count, "eps=0.25", neighbours=[pair], trials=1000, seed=1)
>>> report.broken, report.worst.evidence.lower > 0.25
(True, True)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.audit.claim import Claim, Verdict, held_against
from tacit.audit.mechanisms.floats import check_floats
from tacit.audit.mechanisms.neighbours import BUILT_IN, Form, Neighbours, described, shaped
from tacit.audit.mechanisms.neighbours import neighbours as neighbours_of
from tacit.audit.mechanisms.outputs import Sampler, outcomes
from tacit.audit.mechanisms.replay import Divergence, Function, replay_all
from tacit.audit.mechanisms.search import WORST, Terms, attack
from tacit.audit.mechanisms.timing import TimingReport, compare_times
from tacit.audit.page import Page, finite, tradeoff_figure
from tacit.noise import test_mode
from tacit.parameters import count, probability

SCREENED = 200  # samples on either input to see which pair looks worst


@dataclass(frozen=True)
class MechanismReport:
    """What was claimed, what was tried, and what was found. Nothing in it says "safe"."""

    claim: Claim
    verdicts: tuple[Verdict, ...]
    divergences: tuple[Divergence, ...]
    warnings: tuple[str, ...]
    timing: TimingReport | None
    pairs: tuple[str, ...]
    confidence: float
    receives: str = ""

    @property
    def broken(self) -> bool:
        """Whether the claim is refuted: by a bound above it, or by a difference that needs no statistics."""
        return any(verdict.broken for verdict in self.verdicts) or any(found.certain for found in self.divergences)

    @property
    def worst(self) -> Verdict:
        """The verdict with the largest bound, a broken one before all others."""
        return max(self.verdicts, key=lambda verdict: (verdict.broken, verdict.evidence.lower))

    def to_json(self) -> dict[str, object]:
        """Plain values, for a file or another program."""
        timing = self.timing
        return {
            "claim": self.claim.to_json(),
            "broken": self.broken,
            "confidence": self.confidence,
            "verdicts": [
                {
                    "attack": v.evidence.attack,
                    "game": v.evidence.game,
                    "measure": v.evidence.measure,
                    "lower": finite(v.evidence.lower),
                    "delta": v.evidence.delta,
                    "confidence": v.evidence.confidence,
                    "trials": v.evidence.trials,
                    "permitted": finite(v.permitted),
                    "broken": v.broken,
                    "pair": v.evidence.details.get("pair", ""),
                }
                for v in self.verdicts
            ],
            "divergences": [
                {"kind": d.kind, "what": d.what, "pair": d.pair, "certain": d.certain} for d in self.divergences
            ],
            "warnings": list(self.warnings),
            "timing": None
            if timing is None
            else {"effect": timing.effect, "p_value": timing.p_value, "error": timing.error, "detectable": timing.detectable},
            "pairs": list(self.pairs),
            "receives": self.receives,
        }

    def __str__(self) -> str:
        head = "BROKEN" if self.broken else "not broken by these attacks (no proof)"
        lines = [f"{self.claim.describe()}: {head}", f"- {self.worst}"]
        lines += [f"- {found}" for found in self.divergences]
        lines += [f"- warning: {text}" for text in self.warnings]
        lines += [] if self.timing is None else [f"- {self.timing}"]
        lines += [f"- the function receives {self.receives}"] if self.receives else []
        return "\n".join([*lines, f"- {len(self.pairs)} pairs of inputs tried"])


def audit_mechanism(
    function: Function,
    claim: Claim | Guarantee | str,
    *,
    neighbours: str | Adjacency | Iterable[Neighbours | tuple[object, object]] = Adjacency.ADD_REMOVE,
    data: object = None,
    person: str | None = None, trials: int = 10_000, deep: int = 2, confidence: float = 0.95,
    seed: int | None = None, timing: int = 0, form: Form | None = None,
) -> MechanismReport:
    """Attack a function that takes a data set and returns anything.

    `neighbours` is a relation ("add-remove", "replace-one"), from which pairs are made of `data` or of built-in data sets, or the pairs
    themselves. Every pair is replayed and screened; the `deep` worst are sampled `trials` times on either input. `timing` is how many
    pairs of calls to time. With a seed, draws of `tacit.noise` repeat; other sources of noise are the function's own business.
    `form` is what the function receives: "list" (of rows), "pandas", "arrow", or the data as they are. A function that raises on more
    than half of the inputs was never attacked, so it is refused with the type of the exception instead of passing.
    """
    if isinstance(neighbours, (str, Adjacency)):
        neighbours = Adjacency.parse(neighbours, name="neighbours")
    relation = neighbours if isinstance(neighbours, Adjacency) else Adjacency.ADD_REMOVE
    promised = claim if isinstance(claim, Claim) else Claim.of(claim, adjacency=relation)
    pairs = [pair if form is None else shaped(pair, form) for pair in _pairs(neighbours, data, person)]
    _check_that_it_runs(function, pairs)
    divergences = tuple(replay_all(function, pairs, seed=0 if seed is None else seed))
    chosen = _screened(function, pairs, promised, count("deep", deep), seed)
    each = 1 - (1 - float(probability("confidence", confidence))) / (2 * len(chosen))
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    silent: list[object] = []
    for i, pair in enumerate(chosen):
        first, second = _sample(function, pair, count("trials", trials, least=40), None if seed is None else seed + 7919 * (i + 1))
        silent = silent or _mostly_raised(list(first(trials)), list(second(trials)))
        terms: Terms = {"delta": promised.delta, "confidence": each, "seed": seed, "game": f"{WORST}; {pair.label}"}
        # Both attacks look at the same samples: each of their errors is paid for.
        found = attack(first, second, trials, measure=promised.measure, **terms)
        floats = check_floats(first, second, trials, **terms)
        held = [found] if promised.measure == "mu" else [found, floats.evidence]
        verdicts += [held_against(promised, evidence) for evidence in held]
        warnings += [f"{text} [{pair.label}]" for text in floats.warnings if text not in " ".join(warnings)]
    if silent and not any(verdict.broken for verdict in verdicts):
        # It ran once on each input, and not when it was attacked: a budget of its own, a file that was read to its end.
        raise _raises([error for error in silent if isinstance(error, BaseException)], len(silent), described(pairs[0].first))
    clock = None
    if timing:
        first_pair = chosen[0]
        clock = compare_times(partial(function, first_pair.first), partial(function, first_pair.second), timing, seed=seed)
        if clock.found:
            warnings.append("the time a call takes tells the two inputs apart; the claim is about outputs only")
    return MechanismReport(
        promised, tuple(verdicts), divergences, tuple(warnings), clock, tuple(pair.label for pair in pairs), float(confidence),
        described(pairs[0].first),
    )


def _check_that_it_runs(function: Function, pairs: Sequence[Neighbours]) -> None:
    """Refuse a function that raises on more than half of the inputs: attacks on one exception pass, and say nothing."""
    inputs = [data for pair in pairs for data in (pair.first, pair.second)]
    found = [outcomes(function, data)(1)[0] for data in inputs]
    raised = [one for one in found if isinstance(one, BaseException)]
    if 2 * len(raised) > len(inputs):
        raise _raises(raised, len(inputs), described(inputs[0]))


def _raises(raised: Sequence[BaseException], runs: int, receives: str) -> ParameterError:
    names = [type(error).__name__ for error in raised]
    return ParameterError(
        code="function-raises", type=max(set(names), key=names.count), share=len(names), inputs=runs, receives=receives
    )


def _mostly_raised(*sides: Sequence[object]) -> list[object]:
    """All outputs, where more than half of them on either input are exceptions; else nothing. Where only one input raises, the two are
    told apart by that, which is a finding."""
    mostly = all(2 * sum(isinstance(one, BaseException) for one in side) > len(side) for side in sides)
    return [one for side in sides for one in side] if mostly else []


def _pairs(
    neighbours: str | Adjacency | Iterable[Neighbours | tuple[object, object]], data: object, person: str | None
) -> list[Neighbours]:
    if not isinstance(neighbours, (str, Adjacency)):
        given = [pair if isinstance(pair, Neighbours) else Neighbours(f"pair {i + 1}", *pair) for i, pair in enumerate(neighbours)]
    elif data is not None:
        given = neighbours_of(data, neighbours, person=person)
    else:
        given = [
            Neighbours(f"{name}: {pair.label}", pair.first, pair.second)
            for name, built in BUILT_IN.items()
            for pair in neighbours_of(built, neighbours)
        ]
    if not given:
        raise ParameterError("there is no pair of inputs to tell apart; give data with at least one row, or pairs")
    return given


def _screened(
    function: Function, pairs: Sequence[Neighbours], claim: Claim, deep: int, seed: int | None
) -> list[Neighbours]:
    """The pairs that look worst on a few samples, which are used for nothing else."""
    if len(pairs) <= deep:
        return list(pairs)

    def looks(i: int) -> float:
        first, second = _sample(function, pairs[i], SCREENED, None if seed is None else seed + 104_729 * (i + 1))
        # A low confidence is right here: nothing is claimed, only ordered.
        return attack(
            first, second, SCREENED, delta=claim.delta, confidence=0.5, measure=claim.measure, seed=seed
        ).lower

    return [pairs[i] for i in sorted(range(len(pairs)), key=looks, reverse=True)[:deep]]


def _sample(function: Function, pair: Neighbours, n: int, seed: int | None) -> tuple[Sampler, Sampler]:
    """n outputs on either input, drawn now, as samplers that return them."""
    with contextlib.nullcontext() if seed is None else test_mode(seed):
        first, second = outcomes(function, pair.first)(n), outcomes(function, pair.second)(n)
    return lambda _: first, lambda _: second


def page_of(report: MechanismReport, title: str) -> Page:
    """The page of a report on a mechanism."""
    return Page(
        title,
        report.claim,
        report.verdicts,
        findings=tuple(str(found) for found in report.divergences),
        warnings=report.warnings if report.timing is None else (*report.warnings, str(report.timing)),
        how=(f"{len(report.pairs)} pairs of inputs were replayed and screened: {'; '.join(report.pairs)}",),
        broken=report.broken,
        figures={"The claim and what was found": tradeoff_figure(report.claim, report.verdicts)},
    )
