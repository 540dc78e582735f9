"""The command: its answers are the accountant's, its errors are one line with status 2, and it starts without heavy packages."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit.accounting import (
    METHODS,
    Adjacency,
    ApproxDP,
    Composed,
    Gaussian,
    Group,
    Laplace,
    PackageMissing,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    WithoutReplacement,
    account,
    from_json,
    to_json,
)
from tacit.cli import app, main
from tacit.cli.app import explained, meant

ROOT = Path(__file__).resolve().parents[2]
DPSGD = ["--sampling", "256/60000", "--noise", "1.1", "--epochs", "60"]


def run(*words: str) -> Any:
    """One command in this process; exceptions that should have been answered are raised."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*words: str) -> dict[str, Any]:
    """The JSON answer of a command."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1, "one object on one line"
    found: dict[str, Any] = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return found


def complaint(*words: str) -> str:
    """The one line with which a command refuses."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == "" and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    return str(result.stderr).strip()


# --- epsilon ----------------------------------------------------------------------------------------------------------------------


def test_epsilon_of_dp_sgd() -> None:
    found = answer("epsilon", *DPSGD, "--delta", "1e-5")
    assert found["lower"] <= 2.3815969214243970 <= found["upper"]
    assert found["upper"] - found["lower"] < 1e-8 * found["upper"]
    assert (found["delta"], found["adjacency"]) == (1e-5, "add-remove") and "privacy-loss" in found["method"]
    event = from_json(json.dumps(found["event"]))
    assert event == Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(1.1)), 14062)


def test_epsilon_in_plain_words() -> None:
    result = run("epsilon", *DPSGD, "--delta", "1e-5")
    assert result.exit_code == 0 and result.stderr == ""
    text = result.stdout
    assert "epsilon = 2.381597 at delta = 1e-05" in text
    cost = account(Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(1.1)), 14062))
    rate, posterior, advantage = cost.tpr(0.01).upper, cost.accuracy(0.5).upper, cost.advantage().upper
    words = [word for line in text.splitlines() if "at most" in line or "more than" in line for word in line.split()]
    shown = [float(word) for word in words if "." in word[:-1]]
    true = [100 * rate, 100 * posterior, 100 * advantage]
    assert shown == pytest.approx(true, rel=5e-3)
    assert all(a >= b for a, b in zip(shown, true, strict=True)), "rounded up"
    assert "one record is present or absent" in text


def test_several_deltas() -> None:
    found = answer("epsilon", "--noise", "1", "--delta", "1e-5,1e-6", "--delta", "1/10000000")
    assert [r["delta"] for r in found["results"]] == [1e-5, 1e-6, 1e-7]
    assert [r["upper"] for r in found["results"]] == [account(Gaussian(1)).epsilon(d).upper for d in (1e-5, 1e-6, 1e-7)]
    assert found["upper"] == found["results"][0]["upper"]
    assert run("epsilon", "--noise", "1", "--delta", "1e-5,1e-6").stdout.count("epsilon = ") == 2


NINE = Gaussian(9.0)
ALLOCATED = Sampled(RandomAllocation(10), NINE)
EVENTS: list[tuple[str, Any, Adjacency]] = [
    ("--noise 2", Gaussian(2.0), Adjacency.ADD_REMOVE),
    ("--noise 3/2", Gaussian(Fraction(3, 2)), Adjacency.ADD_REMOVE),
    ("--mechanism laplace --noise 3 --steps 1e2", Repeated(Laplace(3.0), 100), Adjacency.ADD_REMOVE),
    ("--noise 2 --sampling 0.01", Sampled(Poisson(Fraction(1, 100)), Gaussian(2.0)), Adjacency.ADD_REMOVE),
    ("--noise 2 --size 300 --batch 7 --epochs 2", Repeated(Sampled(Poisson(Fraction(7, 300)), Gaussian(2.0)), 85), Adjacency.ADD_REMOVE),
    ("--noise 2 --sampling 0.01 --epochs 0.5", Repeated(Sampled(Poisson(Fraction(1, 100)), Gaussian(2.0)), 50), Adjacency.ADD_REMOVE),
    ("--noise 2 --sampling 0.1 --epochs 60", Repeated(Sampled(Poisson(Fraction(1, 10)), Gaussian(2.0)), 600), Adjacency.ADD_REMOVE),
    ("--noise 9 --scheme without-replacement --size 90 --batch 30", Sampled(WithoutReplacement(90, 30), NINE), Adjacency.REPLACE_ONE),
    ("--noise 9 --scheme without-replacement --sampling 1/3", Sampled(WithoutReplacement(3, 1), NINE), Adjacency.REPLACE_ONE),
    ("--noise 9 --scheme random-allocation --sampling 0.1 --epochs 3", Repeated(ALLOCATED, 3), Adjacency.ADD_REMOVE),
    ("--noise 9 --scheme random-allocation --size 100 --batch 30", Sampled(RandomAllocation(3), NINE), Adjacency.ADD_REMOVE),
    ("--noise 2 --adjacency zero-out", Gaussian(2.0, adjacency=Adjacency.ZERO_OUT), Adjacency.ZERO_OUT),
    ("--noise 2 --adjacency replace-one", Gaussian(2.0), Adjacency.REPLACE_ONE),
    ("--noise 2 --group 3", Group(Gaussian(2.0), 3), Adjacency.ADD_REMOVE),
    ("--mechanism approximate --step-epsilon 0.1 --step-delta 1e-9 --steps 5", Repeated(ApproxDP(0.1, 1e-9), 5), Adjacency.ADD_REMOVE),
]


@pytest.mark.parametrize(("words", "event", "adjacency"), EVENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_options_describe_the_event(words: str, event: Any, adjacency: Adjacency) -> None:
    found = answer("epsilon", *words.split(), "--delta", "1e-5")
    assert from_json(json.dumps(found["event"])) == event
    assert found["adjacency"] == adjacency.value
    assert found["upper"] == account(event, adjacency).epsilon(1e-5).upper


def test_replacement_is_twice_the_contribution_of_one_record() -> None:
    once = answer("epsilon", "--noise", "1", "--delta", "1e-5", "--adjacency", "add-remove")
    twice = answer("epsilon", "--noise", "2", "--delta", "1e-5", "--adjacency", "replace-one")
    assert once["upper"] == pytest.approx(twice["upper"], rel=1e-12)


def test_null_record() -> None:
    words = ["epsilon", "--mechanism", "randomized-response", "--step-epsilon", "1", "--adjacency", "add-remove", "--delta", "0"]
    assert "--null-record" in complaint(*words)
    assert answer(*words, "--null-record")["upper"] == pytest.approx(1.0)


@pytest.mark.parametrize("mechanism", ["pure", "exponential", "staircase", "randomized-response"])
def test_mechanisms_with_an_epsilon_of_their_own(mechanism: str) -> None:
    found = answer("epsilon", "--mechanism", mechanism, "--step-epsilon", "1/2", "--steps", "2", "--delta", "0")
    assert found["upper"] == pytest.approx(1.0) and found["event"]["event"]["epsilon"] == "1/2"


@pytest.mark.parametrize("mechanism", ["discrete-gaussian", "discrete-laplace"])
def test_discrete_mechanisms(mechanism: str) -> None:
    found = answer("epsilon", "--mechanism", mechanism, "--noise", "10", "--steps", "4", "--delta", "1e-5")
    smooth = answer("epsilon", "--mechanism", mechanism.removeprefix("discrete-"), "--noise", "10", "--steps", "4", "--delta", "1e-5")
    assert found["upper"] == pytest.approx(smooth["upper"], rel=0.02)


def test_methods() -> None:
    words = ["epsilon", "--mechanism", "laplace", "--noise", "10", "--steps", "100", "--delta", "1e-6", "--method"]
    assert answer(*words, "advanced")["upper"] == pytest.approx(5.75652177, abs=1e-8)
    assert answer(*words, "optimal")["upper"] == pytest.approx(4.77456759, abs=1e-8)
    estimate = answer(*words, "central-limit")
    assert (estimate["lower"], estimate["upper"]) == (None, None) and estimate["estimate"] > 0
    text = run("epsilon", "--noise", "1", "--delta", "1e-5", "--method", "central-limit").stdout
    assert "no guarantee" in text and "about" in text


def test_certify() -> None:
    pytest.importorskip("flint")
    found = answer("epsilon", "--noise", "1", "--sampling", "1/10", "--steps", "10", "--delta", "1e-5", "--certify")
    plain = answer("epsilon", "--noise", "1", "--sampling", "1/10", "--steps", "10", "--delta", "1e-5")
    assert "ball arithmetic" in found["method"]
    assert plain["lower"] <= found["lower"] <= found["upper"] <= plain["upper"]
    assert found["upper"] - found["lower"] <= 1e-12 * found["upper"]


def test_any_event_from_a_file(tmp_path: Path) -> None:
    event = Composed(Gaussian(2), Repeated(Laplace(Fraction(10, 3)), 7))
    file = tmp_path / "évent.json"
    file.write_text(to_json(event), encoding="utf-8")
    found = answer("epsilon", "--event", str(file), "--delta", "1e-6")
    assert from_json(json.dumps(found["event"])) == event
    assert found["upper"] == account(event).epsilon(1e-6).upper
    doubled = answer("epsilon", "--event", str(file), "--steps", "2", "--delta", "1e-6")
    assert from_json(json.dumps(doubled["event"])) == Repeated(event, 2)


def test_an_infinite_cost_is_said_in_json_and_in_words(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text('{"type": "NonPrivate"}')
    assert answer("epsilon", "--event", str(file), "--delta", "1e-6")["upper"] == "inf"
    assert "no protection at all" in run("epsilon", "--event", str(file), "--delta", "1e-6", "--plot", str(tmp_path / "all.png")).stdout


# --- the other questions ----------------------------------------------------------------------------------------------------------


def test_delta() -> None:
    found = answer("delta", "--epsilon", "1,0,-1/2", "--noise", "1")
    assert found["lower"] <= 0.126936737507 <= found["upper"] + 1e-12
    assert found["results"][1]["upper"] == pytest.approx(0.382924922548)
    assert found["results"][2]["upper"] > found["results"][1]["upper"]
    assert "delta = " in run("delta", "--epsilon", "1", "--noise", "1").stdout


def test_noise() -> None:
    found = answer("noise", "--epsilon", "1", "--delta", "1e-6", "--sampling", ".01", "--steps", "10000")
    assert found["noise"] == pytest.approx(4.3021064656, rel=1e-7)
    assert found["noise"] >= 4.3021064656 and found["upper"] <= 1
    text = run("noise", "--epsilon", "1/2", "--mechanism", "laplace").stdout
    assert text.startswith("noise = 2") and "spends     epsilon = " in text


def test_steps() -> None:
    found = answer("steps", "--epsilon", "1", "--delta", "1e-6", "--noise", "1", "--sampling", ".01")
    event = from_json(json.dumps(found["event"]))
    assert isinstance(event, Repeated) and event.count == found["steps"]
    assert found["upper"] <= 1 < account(Repeated(event.event, event.count + 1)).epsilon(1e-6).upper
    assert found["epochs"] == pytest.approx(found["steps"] / 100)
    assert "steps = 10 " in run("steps", "--epsilon", "1.001", "--mechanism", "pure", "--step-epsilon", "1/10").stdout


def test_curve() -> None:
    found = answer("curve", "--noise", "1", "--epsilon", "0,1,2")
    assert found["upper"] == pytest.approx([0.382924922548, 0.126936737507, 0.0209236358211], rel=1e-9)
    assert all(low <= high for low, high in zip(found["lower"], found["upper"], strict=True))
    rates = found["tradeoff"]
    assert dict(zip(rates["fpr"], rates["tpr_upper"], strict=True))[0.05] == pytest.approx(0.259511, rel=2e-3)
    text = run("curve", "--noise", "1").stdout
    assert "Privacy profile" in text and "Membership attack" in text and "method" in text


def test_compare() -> None:
    words = ["compare", "--mechanism", "laplace", "--noise", "10", "--steps", "100", "--delta", "1e-6"]
    found = answer(*words)
    rows = {row["method"]: row["figures"][0] for row in found["rows"]}
    assert list(rows) == ["tightest", *METHODS]
    assert rows["basic"]["upper"] == pytest.approx(10) and rows["drv"]["upper"] == pytest.approx(6.30823095)
    assert found["upper"] == rows["pld"]["upper"]
    gaussian = answer("compare", "--noise", "1", "--delta", "1e-5")
    assert "Gaussian noise" in next(r for r in gaussian["rows"] if r["method"] == "basic")["figures"][0]["inapplicable"]
    assert "does not apply" in run("compare", "--noise", "1", "--delta", "1e-5").stdout


PLOTS = {  # epsilon, delta, noise and curve draw the same picture
    "delta": ["delta", "--noise", "1", "--epsilon", "1"],
    "noise": ["noise", "--epsilon", "1", "--delta", "1e-6"],
    "steps": ["steps", "--epsilon", "1", "--delta", "1e-6", "--noise", "20"],
    "compare": ["compare", "--noise", "1", "--delta", "1e-5"],
}


@pytest.mark.parametrize("command", PLOTS)
def test_plots(command: str, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    result = run(*PLOTS[command], "--plot", str(file))
    assert result.exit_code == 0 and f"picture in {file}" in result.stdout
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_picture_beside_json_leaves_one_object(tmp_path: Path) -> None:
    assert answer("epsilon", "--noise", "1", "--delta", "1e-5", "--plot", str(tmp_path / "a.svg"))["upper"] > 4
    assert (tmp_path / "a.svg").exists()


# --- refusals ---------------------------------------------------------------------------------------------------------------------

REFUSED = {
    "epsilon --noise 1": "--delta is missing",
    "epsilon --delta 1e-5": "--noise is missing",
    "epsilon --noise -1 --delta 1e-5": "--noise must be above 0",
    "epsilon --noise 0 --delta 1e-5": "--noise must be above 0",
    "epsilon --noise nan --delta 1e-5": "--noise must be a number",
    "epsilon --noise inf --delta 1e-5": "--noise must be a number",
    "epsilon --noise 1e400 --delta 1e-5": "--noise must lie between",
    "epsilon --noise 1e999999999 --delta 1e-5": "--noise must be a number",
    "epsilon --noise 1/0 --delta 1e-5": "--noise divides by zero",
    "epsilon --noise 1/2/3 --delta 1e-5": "--noise must be a number",
    "epsilon --noise 1,1 --delta 1e-5": "--noise must be a number",
    "epsilon --noise é --delta 1e-5": "--noise must be a number",
    "epsilon --noise 1 --delta 2": "--delta must be between 0 and 1",
    "epsilon --noise 1 --delta -1e-5": "--delta must be between 0 and 1",
    "epsilon --noise 1 --delta 0": "--delta must be positive",
    "epsilon --noise 1 --delta 1e-5,": "--delta must be a number",
    "epsilon --noise 1 --sampling 2 --delta 1e-5": "--sampling must be above 0 and at most 1",
    "epsilon --noise 1 --sampling 0 --delta 1e-5": "--sampling must be above 0 and at most 1",
    "epsilon --noise 1 --steps 0 --delta 1e-5": "--steps must be a whole number",
    "epsilon --noise 1 --steps 1.5 --delta 1e-5": "--steps must be a whole number",
    "epsilon --noise 1 --steps 1e20 --delta 1e-5": "--steps must be at most",
    "epsilon --noise 1 --steps 2 --epochs 2 --sampling .1 --delta 1e-5": "--steps and --epochs say the same twice",
    "epsilon --noise 1 --epochs 2 --delta 1e-5": "--epochs needs to know",
    "epsilon --noise 1 --epochs 1/100 --sampling .1 --delta 1e-5": "--epochs '1/100' gives no whole step",
    "epsilon --noise 1 --size 100 --delta 1e-5": "--batch is missing",
    "epsilon --noise 1 --batch 100 --delta 1e-5": "--size is missing",
    "epsilon --noise 1 --size 100 --batch 200 --delta 1e-5": "--batch must be at most --size",
    "epsilon --noise 1 --size 100 --batch 2 --sampling .1 --delta 1e-5": "--sampling contradicts",
    "epsilon --noise 1 --scheme poisson --delta 1e-5": "--scheme needs to know",
    "epsilon --noise 1 --scheme lottery --sampling .1 --delta 1e-5": "--scheme must be one of",
    "epsilon --noise 1 --scheme with-replacement --sampling .1 --delta 1e-5": "needs --size and --batch",
    "epsilon --noise 1 --scheme without-replacement --sampling .1 --delta 1e-5 --adjacency add-remove": "--adjacency replace-one",
    "epsilon --noise 1 --scheme random-allocation --sampling .1 --steps 15 --delta 1e-5": "whole epochs of 10 steps",
    "epsilon --mechanism magic --noise 1 --delta 1e-5": "--mechanism must be one of",
    "epsilon --mechanism pure --noise 1 --delta 1e-5": "--noise does not go with",
    "epsilon --mechanism pure --delta 1e-5": "--step-epsilon is missing",
    "epsilon --mechanism pure --step-epsilon 1 --step-delta 1e-5 --delta 1e-5": "--step-delta goes only with",
    "epsilon --mechanism pure --step-epsilon 1 --categories 3 --delta 1e-5": "--categories goes only with",
    "epsilon --noise 1 --step-epsilon 1 --delta 1e-5": "--step-epsilon does not go with",
    "epsilon --mechanism randomized-response --step-epsilon 1 --categories 1 --delta 0": "categories must be at least 2",
    "epsilon --noise 1 --adjacency sideways --delta 1e-5": "--adjacency must be ",
    "epsilon --noise 1 --group 0 --delta 1e-5": "--group must be a whole number",
    "epsilon --noise 1 --delta 1e-5 --method magic": "--method must be one of",
    "epsilon --noise 1 --delta 1e-5 --method basic": "Gaussian noise has none",
    "epsilon --noise 1 --delta 1e-5 --method rdp --certify": "--certify proves the exact figure",
    "epsilon --noise 1 --delta 1e-5 --plot picture.txt": "--plot must be a file that ends in",
    "epsilon --noise 1 --delta 1e-5 --plot /nowhere/at/all.png": "--plot: cannot write",
    "epsilon --event /nowhere.json --delta 1e-5": "--event: cannot read",
    "epsilon --event . --delta 1e-5": "--event: cannot read",
    "epsilon --event a.json --noise 1 --delta 1e-5": "--event already says what is done",
    "noise --epsilon 1 --mechanism pure": "has no noise to search for",
    "noise --delta 1e-5": "--epsilon is missing",
    "noise --epsilon 0 --delta 1e-5": "--epsilon must be above 0",
    "noise --epsilon 1": "--delta must be positive",
    "noise --epsilon 1 --delta 1e-5 --method central-limit": "cannot hold a target",
    "steps --epsilon 1 --delta 1e-5 --noise 0.01": "exceeds the target",
    "delta --noise 1": "--epsilon is missing",
    "delta --noise 1 --epsilon one": "--epsilon must be a number",
    "compare --noise 1": "--delta is missing",
    "compare --noise 1 --delta 0": "delta must be positive",
    "demo --out /dev/null/folder": "--out: cannot make the folder",
    "epsilon --nonsense": "No such option",
    "epsilon --delta": "requires an argument",
    "epsilon 3": "unexpected extra argument",
    "epsilonn": "No such command",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_names_the_option_and_the_fix(words: str) -> None:
    assert REFUSED[words] in complaint(*words.split())


@pytest.mark.parametrize("words", ["epsilon --noise -1 --delta 1e-5", "epsilon --nonsense", "epsilon --noise 1 --delta 0", "nonsense"])
def test_refusals_in_json(words: str) -> None:
    result = run(*words.split(), "--json")
    assert result.exit_code == 2 and result.stderr == ""
    assert list(json.loads(result.stdout)) == ["error"]


@pytest.mark.parametrize("content", ["", "{", '{"type": "Gaussian"}', '{"type": "Gaussian", "noise_multiplier": -1}', "[" * 100_000])
def test_a_bad_event_file_is_explained(content: str, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(content)
    assert "--event: " in complaint("epsilon", "--event", str(file), "--delta", "1e-5")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(b"\xff\xfe\x00")
    assert "is not text in UTF-8" in complaint("epsilon", "--event", str(file), "--delta", "1e-5")


def test_mixed_relations_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    parts = ['{"type": "Gaussian", "noise_multiplier": 1}', '{"type": "RandomizedResponse", "epsilon": 1}']
    file.write_text('{"type": "Composed", "events": [' + ", ".join(parts) + "]}")
    assert "different relations" in complaint("epsilon", "--event", str(file), "--delta", "1e-5")


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explained(AssertionError("a bug")) is None and explained(TypeError()) is None
    assert "(OverflowError); use less extreme" in str(explained(OverflowError("too large")))
    monkeypatch.setenv("TACIT_TRACEBACK", "1")
    assert explained(OverflowError("too large")) is None
    missing = PackageMissing(code="package-missing", package="torch", install="'tacit[torch]'")
    assert isinstance(missing, ImportError) and explained(missing) == "torch is not installed; run: pip install 'tacit[torch]'"
    assert explained(ImportError("pip install of a fault of ours")) is None


values = st.one_of(
    st.sampled_from(["1", "1e-5", "0.5", "1/3", "256/60000", "0", "-1", "nan", "inf", "1e-400", "1e400"]),
    st.sampled_from(["", " ", "é", "1,2", "\x00", "--", "\ud800", "1\n2"]),
    st.floats().map(str),
    st.fractions().map(str),
    st.integers(-10, 1000).map(str),
    st.text(max_size=6),
)
names = st.sampled_from(
    [
        *("--noise", "--delta", "--epsilon", "--sampling", "--steps", "--epochs", "--size", "--batch", "--group"),
        *("--step-epsilon", "--step-delta", "--categories", "--event"),
    ]
)
choices = st.sampled_from(
    [
        *(("--mechanism", m) for m in ("laplace", "pure", "exponential", "staircase", "approximate", "randomized-response", "x")),
        *(("--scheme", s) for s in ("poisson", "without-replacement", "x")),
        *(("--adjacency", a) for a in ("add-remove", "replace-one", "zero-out", "x")),
        *(("--method", m) for m in ("basic", "advanced", "zcdp-improved", "x")),
        *(("--null-record",), ("--json",), ("--help",), ("--plot", "x")),
    ]
)


@given(
    st.sampled_from(["epsilon", "delta"]),
    st.lists(st.tuples(names, values), max_size=4),
    st.lists(choices, max_size=3),
    st.booleans(),
)
def test_whatever_is_typed_there_is_an_answer_or_one_line(
    command: str, given_: list[tuple[str, str]], chosen: list[tuple[str, ...]], complete: bool
) -> None:
    words = [command, *(word for pair in given_ for word in pair), *(word for choice in chosen for word in choice)]
    if complete:
        words += ["--noise", "5", "--delta", "1e-5"] if command == "epsilon" else ["--noise", "5", "--epsilon", "1"]
    result = run(*words)
    assert result.exit_code in (0, 2)
    assert "Traceback" not in result.output
    if result.exit_code == 2 and "--json" not in words:
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


# --- the process ------------------------------------------------------------------------------------------------------------------


def process(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    settings_ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=settings_, cwd=cwd, timeout=600)


def test_help_is_fast_and_light() -> None:
    code = (
        "import sys; from tacit.cli import main; status = main(['--help'])\n"
        "heavy = [m for m in ('numpy', 'scipy', 'matplotlib', 'tacit.accounting') if m in sys.modules]\n"
        "sys.exit(status or (str(heavy) if heavy else 0))"
    )
    run_ = process("-c", code)
    assert run_.returncode == 0, run_.stderr
    for command in ("epsilon", "delta", "noise", "steps", "curve", "compare", "demo"):
        assert command in run_.stdout


@pytest.mark.parametrize("command", ["epsilon", "delta", "noise", "steps", "curve", "compare", "demo"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout and f"tacit {command} --" in " ".join(result.stdout.split())


def test_python_m() -> None:
    run_ = process("-m", "tacit.cli", "epsilon", "--noise", "1", "--delta", "1e-5", "--json")
    assert run_.returncode == 0 and run_.stderr == ""
    assert json.loads(run_.stdout)["upper"] == pytest.approx(4.3771780957)
    refused = process("-m", "tacit.cli", "epsilon", "--noise", "-1", "--delta", "1e-5")
    assert (refused.returncode, refused.stdout) == (2, "") and refused.stderr == "error: --noise must be above 0, not '-1'\n"


def test_main_returns_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["epsilon", "--noise", "1", "--delta", "1e-5"]) == 0
    assert main(["epsilon"]) == 2
    assert main(["--version"]) == 0
    assert main([]) == 0
    assert "error: --delta is missing" in capsys.readouterr().err


def test_every_example_in_the_help_is_understood() -> None:
    """The examples run; those that would write files or take long are run elsewhere."""
    assert math.isfinite(answer("epsilon", "--mechanism", "laplace", "--noise", "10", "--steps", "100", "--delta", "0,1e-6")["upper"])
    assert answer("delta", "--epsilon", "1/2", "--mechanism", "laplace", "--noise", "1")["upper"] == pytest.approx(0.2211992169)


@pytest.mark.parametrize(
    "words",
    [
        "epsilon --noise 1e-290 --delta 1e-5",
        "epsilon --noise 1e290 --delta 1e-5",
        "epsilon --noise 1 --steps 1e15 --delta 1e-5",
        "epsilon --noise 1 --group 1e15 --delta 1e-290",
        "epsilon --noise 1 --sampling 1e-290 --delta 1e-5",
        "epsilon --mechanism laplace --noise 1e-5 --steps 10 --delta 1e-5",
        "epsilon --mechanism pure --step-epsilon 1e290 --steps 1e15 --delta 1e-5",
        "epsilon --mechanism randomized-response --step-epsilon 1e-290 --categories 1e15 --delta 1e-5",
        "epsilon --scheme without-replacement --sampling 1e-12 --noise 1 --delta 1e-5",
        "noise --epsilon 1e-9 --delta 1e-12 --steps 1e9",
        "delta --epsilon 1e290 --noise 1",
        "delta --epsilon -1e290 --noise 1",
    ],
)
def test_extreme_numbers_get_an_answer_or_one_line(words: str) -> None:
    result = run(*words.split(), "--json")
    assert result.exit_code in (0, 2) and "Traceback" not in result.output
    found = json.loads(result.stdout)
    assert "upper" in found or "error" in found


def test_the_words_of_a_stray_error_are_not_shown() -> None:
    """Nobody knows what they quote; a value of the data, in the worst case."""
    found = explained(ValueError("could not convert string to float: 'Ada Lovelace'"))
    assert found is not None and "ValueError" in found and "Ada" not in found


@pytest.mark.parametrize(("words", "expected"), [("compare j.YML", "rehearse"), ("compare", "compare"), ("compare --json", "compare")])
def test_compare_with_a_job_is_about_the_job(words: str, expected: str) -> None:
    assert meant(words.split()) == [expected, *words.split()[1:]]
