"""A bound with a confidence of 95% is wrong at most five times in a hundred: counted over a thousand runs, for every auditor there is.

`pytest -m slow -rP tests/audit/test_validity.py` prints a line for each: how often the bound lay above the truth, its median, and how often
the mutant's did. The same lines are in a report of `--junit-xml`, as properties.

A count is refused if an auditor that is wrong with probability `error` exactly would reach it with probability below one in a million.
"""

from __future__ import annotations

import ast
import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from tests.audit.auditors import AUDITORS, Auditor, Run

import tacit.audit
from tacit.audit.claim import Claim
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.exact_laws import LawPair

RUNS = 1000
CHANCE = 1e-6
ROOM = Path(tacit.audit.__file__).parent

# What a public function returns, or takes, that makes it one that must be counted.
FOUND = {
    *("Evidence", "OperatingPoint", "Sequential", "Band", "MechanismReport", "ModelReport", "FloatReport", "LeakageAudit", "RiskEstimate"),
    *("Exposure", "AttributeRisk", "TimingReport", "RateAt", "FoundInputs"),
}
ELSEWHERE = {
    "claim.Evidence.of_point": "turns a point, counted as operating_point, into evidence",
    "claim.surely": "prints a confidence",
    "search.choose": "chooses, and claims nothing",
    "search.promise": "what a test may be expected to certify: chooses, and claims nothing",
    "search.certified": "the last step of attack",
    "sequential.Sequential.evidence": "what audit_until found",
    "roc.Roc.band": "the width that band_point uses",
    "roc.summary": "collects tpr_at",
    "roc.roc_figure": "draws the band",
    "attack.validation_size": "a size, not a bound",
    "canary_clients.audit_clients": "plays the game and hands the scores to audit_one_run, which is counted",
    "canary_clients.audit_question": "plays the game and hands the scores to audit_one_run, which is counted",
    "credible.credible": "a Bayesian interval, no bound; its calibration is counted in test_credible",
    "poisoning.poisoning_success": "two rates with the exact one-sided bounds of operating_point, half of the risk each",
    "information.mine": "a limit from examples; how often it holds is counted in leakage/test_information",
    "inputs.search_inputs": "chooses a pair, and hands fresh samples of it to attack, which is counted",
    "local_reports.audit_reports": "draws reports and hands them to attack, which is counted; all its looks share its confidence",
    "synthetic.audit_measurements": "plays the game and hands the scores to coin_evidence, which is counted",
}


def limit(runs: int, error: float) -> int:
    """The most wrong bounds that are put down to chance."""
    return int(binom.ppf(1 - CHANCE, runs, error))


def bounds(auditor: Auditor, what: str, run: Run, runs: int) -> NDArray[np.float64]:
    start = zlib.crc32(f"{what} {auditor.name} {auditor.mechanism}".encode()) * 100_000
    found = []
    for number in range(runs):
        draw = generator(start + number)
        found.append(run(draw, int(draw.integers(2**31))))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("auditor", AUDITORS, ids=lambda auditor: auditor.name)
def test_bounds_hold_in_95_of_100_runs(auditor: Auditor, record_property: Callable[[str, object], None]) -> None:
    found = bounds(auditor, "run", auditor.run, RUNS)
    broken = bounds(auditor, "mutant", auditor.mutant, auditor.mutant_runs)
    wrong, caught = (int(np.sum(values > auditor.truth)) for values in (found, broken))
    most, few = limit(RUNS, auditor.error), limit(auditor.mutant_runs, auditor.error)
    line = (
        f"{auditor.name} | {auditor.mechanism} | truth {auditor.truth:.4g} | above it in {wrong} of {RUNS} (at most {most})"
        f" | median {np.median(found):.4g} | mutant: {caught} of {auditor.mutant_runs} (at most {few})"
    )
    record_property("validity", line)
    print(line)
    assert wrong <= most
    assert np.median(found) >= auditor.reaches, "never wrong, because it says too little"
    assert caught > few, "the check does not see a mistake"


def test_the_table_can_be_run() -> None:
    """Once each, so that the thousand runs of the slow suite do not meet a name that is gone."""
    assert len({auditor.name for auditor in AUDITORS}) == len(AUDITORS)
    for auditor in AUDITORS:
        for what, run in (("run", auditor.run), ("mutant", auditor.mutant)):
            assert not math.isnan(bounds(auditor, what, run, 1)[0]), auditor.name


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Public functions and methods of a module, by name."""
    for node in tree.body:
        inner = [node] if isinstance(node, ast.FunctionDef) else node.body if isinstance(node, ast.ClassDef) else []
        for one in inner:
            name = f"{node.name}.{one.name}" if isinstance(node, ast.ClassDef) and isinstance(one, ast.FunctionDef) else ""
            name = name or (one.name if isinstance(one, ast.FunctionDef) else "")
            if name and isinstance(one, ast.FunctionDef) and not any(part.startswith("_") for part in name.split(".")):
                yield name, one


def confident() -> Iterator[str]:
    """Every public function of the package that returns evidence or takes a confidence."""
    for path in sorted(ROOM.rglob("*.py")):
        module = path.parent.name if path.stem == "__init__" else path.stem
        for name, node in functions(ast.parse(path.read_text())):
            taken = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            returned = "" if node.returns is None else ast.unparse(node.returns)
            if "confidence" in taken or returned in FOUND:
                yield f"{module}.{name}"


def test_every_auditor_is_in_the_table() -> None:
    counted = {auditor.covers for auditor in AUDITORS}
    there = set(confident())
    assert there - counted - set(ELSEWHERE) == set(), "count it in tests/audit/auditors, or say why it needs no count"
    assert set(ELSEWHERE) - there == set(), "what is excused must exist"
    assert not counted & set(ELSEWHERE)


def test_the_exact_comparison_is_never_wrong() -> None:
    """A thousand random pairs of laws on four outputs: the largest ratio over all 16 events, by enumeration, in fractions."""
    draw = generator(15)
    for number in range(RUNS):
        weights = draw.integers(0, 12, size=(2, 4)) + np.eye(4, dtype=int)[draw.integers(4, size=2)]
        first, second = ([Fraction(int(w), int(row.sum())) for w in row] for row in weights)
        delta = Fraction(number % 4, 20)
        ratios = [Fraction(1)]
        for p, q in ((first, second), (second, first)):
            for event in itertools.product((0, 1), repeat=4):
                likely, unlikely = (sum((x for x, there in zip(law, event, strict=True) if there), Fraction(0)) for law in (q, p))
                if likely > delta:
                    ratios.append((likely - delta) / unlikely if unlikely else math.inf)  # type: ignore[arg-type]
        pair = LawPair(first, second)
        assert pair.ratio(delta) == max(ratios)
        if number % 20 == 0 and delta == 0 and max(ratios) < math.inf:
            assert not pair.breaks(Claim.of(epsilon=pair.epsilon()))
            assert max(ratios) == 1 or pair.breaks(Claim.of(epsilon=0.9 * pair.epsilon())), "the mutant: a claim of nine tenths"
