"""The command on Tacit as it is, and on a Tacit with too little noise."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tacit import noise
from tacit.audit.selftest import running
from tacit.audit.selftest.case import Case, promise
from tacit.audit.selftest.running import ERROR, Part, SelfTest, run
from tacit.cli import audit as of_commands
from tacit.cli import main
from tacit.noise import discrete_laplace

#: Parts whose cases, and whose mutants, have a test for each beside their room: test_local_cases, test_mutants and so on.
CASES_APART = {"synthesis", "local", "federated", "neural synthesis", "learning"}
MUTANTS_APART = CASES_APART | {"mechanisms", "tables", "training"}


def test_quick_mode_on_what_has_no_test_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    left = [part for part in running.parts() if part.name not in CASES_APART]
    kept = [replace(part, mutants=list) if part.name in MUTANTS_APART else part for part in left]
    monkeypatch.setattr(running, "parts", lambda: kept)
    monkeypatch.setattr(of_commands, "SELFTESTS", ())
    status = main(["selftest", "--quick", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [row for row in found["cases"] if not row["passed"]] + [row for row in found["mutants"] if not row["caught"]] == []
    assert status == 0 and len(found["cases"]) >= 30 and len(found["mutants"]) >= 10
    assert all(row["found"] <= row["claimed"] for row in found["cases"])


@pytest.mark.slow
def test_quick_mode_on_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "selftest.html"
    status = main(["selftest", "--quick", "--json", "--html", str(page)])
    found = json.loads(capsys.readouterr().out)
    failing = [row for row in found["cases"] if not row["passed"]] + [row for row in found["mutants"] if not row["caught"]]
    assert failing == [] and status == 0 and found["passed"]
    assert len(found["cases"]) >= 55 and len(found["mutants"]) >= 40 and found["error"] == ERROR == 1e-6
    assert all(row["found"] <= row["claimed"] for row in found["cases"])
    text = page.read_text(encoding="utf-8")
    assert "sparse vector: Roth" in text and "geometric, truncated" in text and "is safe" not in text.lower()


class ThinNoise:
    """tacit.noise with a fault: half of the scale."""

    def __getattr__(self, name: str):
        return getattr(noise, name)

    def rounded_laplace(self, scale, *more, **others):
        return noise.rounded_laplace(Fraction(scale) / 2, *more, **others)


def test_half_the_noise_in_tacit_itself_ends_with_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = Part("noise", (), "", lambda: [case for case in running.mechanism_cases.cases() if case.name.startswith("laplace")], list)
    monkeypatch.setattr(running, "parts", lambda: [few])
    assert main(["selftest", "--quick", "--only", "laplace"]) == 0
    assert "no attack beat a claim" in capsys.readouterr().out
    monkeypatch.setattr(importlib.import_module("tacit.mechanisms.noisy_sums"), "noise", ThinNoise())
    assert main(["selftest", "--quick", "--only", "laplace"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out and "ABOVE ITS CLAIM" in out and "laplace on a lattice: above its claim" in out


def small(monkeypatch: pytest.MonkeyPatch, scale: int, floor: float, mutants=list, needs=()) -> SelfTest:
    case = Case("x", promise(discrete()), lambda n: discrete_laplace(scale, size=n), lambda n: 1 + discrete_laplace(scale, size=n), floor)
    monkeypatch.setattr(running, "parts", lambda: [Part("noise", needs, "deep", lambda: [case], mutants)])
    return run(quick=True)


def discrete():
    from tacit.accounting import DiscreteLaplace

    return DiscreteLaplace(1, 1)


def test_an_escaped_mutant_and_a_weak_attack_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert small(monkeypatch, 1, 0.8).passed
    weak = small(monkeypatch, 20, 0.9)
    assert not weak.passed and "below its floor" in weak.headline
    right = running.mutants.MUTANTS[0]
    harmless = type(right)("harmless", right.right, right.right, right.pair)
    escaped = small(monkeypatch, 1, 0.8, lambda: [harmless])
    assert not escaped.passed and "harmless: escaped" in escaped.headline


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = small(monkeypatch, 1, 0.8, needs=("no_such_package",))
    assert not report.passed and "noise needs no_such_package: pip install 'tacit[deep]'" in report.skipped[0]


def test_a_name_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(running, "parts", lambda: [])
    assert main(["selftest", "--only", "nothing"]) == 2
    assert "no case and no mutant" in capsys.readouterr().err


def test_what_is_attacked_elsewhere_is_left_out_of_quick_mode_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    samplers = lambda n: discrete_laplace(1, size=n), lambda n: 1 + discrete_laplace(1, size=n)
    cases = [Case("kept", promise(discrete()), *samplers, 0.1), Case("other", promise(discrete()), *samplers, 0.1, elsewhere=("kept",))]
    monkeypatch.setattr(running, "parts", lambda: [Part("noise", (), "", lambda: cases, list)])
    report = run(quick=True)
    assert [outcome.case.name for outcome in report.outcomes] == ["kept"]
    assert "'other', whose code is attacked as 'kept'" in report.skipped
    assert [outcome.case.name for outcome in run(quick=True, only="oth").outcomes] == ["other"]
    assert [outcome.case.name for outcome in run().outcomes] == ["kept", "other"]


def test_the_error_is_shared_over_all_cases_whatever_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    samplers = lambda n: discrete_laplace(1, size=n), lambda n: 1 + discrete_laplace(1, size=n)
    cases = [Case(f"c{i}", promise(discrete()), *samplers, 0.1) for i in range(4)]
    monkeypatch.setattr(running, "parts", lambda: [Part("noise", (), "", lambda: cases, list)])
    (outcome,) = run(quick=True, only="c2").outcomes
    assert 1 - outcome.verdict.evidence.confidence == pytest.approx(ERROR / 4, rel=1e-6)
