"""Submetrics: never above the metric plus alpha, within the number of questions, with noise and after an interruption."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tacit.fairness import CloserQuestion, FairnessError, MetricSession, learn_submetric

ALPHAS = (0.05, 0.2)


def plane(n: int, seed: int) -> np.ndarray:
    """A metric into [0, 1]: places in the unit square."""
    places = np.random.default_rng(seed).uniform(0, 1, (n, 2))
    return np.asarray(np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2)) / math.sqrt(2))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [2, 9, 60])
def test_never_above_and_within_the_questions(n: int, alpha: float) -> None:
    true, representatives = plane(n, n), list(range(min(n, 3)))
    found = learn_submetric(range(n), lambda r, x: true[r, x], alpha=alpha, representatives=representatives)
    assert (found.distances <= true + alpha + 1e-12).all()
    assert found.comparisons <= 3 * n * math.log2(n) * len(representatives)
    assert found.measured <= (math.ceil(max(1 / alpha, math.log2(n))) + 1) * len(representatives)
    assert (np.diag(found.distances) == 0).all() and (found.distances == found.distances.T).all()


def test_more_representatives_tell_more() -> None:
    true = plane(40, 1)
    few, many = (
        learn_submetric(range(40), lambda r, x: true[r, x], alpha=0.02, representatives=range(k)).distances.sum() for k in (1, 6)
    )
    assert 0 < few < many <= true.sum() + 0.02 * 1600


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_arbiter_does_not_break_it(seed: int) -> None:
    true, made, off = plane(30, seed), np.random.default_rng(seed), 0.01

    def distance(r: int, x: int) -> float:
        return float(np.clip(true[r, x] + made.uniform(-off, off), 0, 1))

    def closer(r: int, x: int, y: int) -> str:
        if abs(true[r, x] - true[r, y]) <= off:
            return str(made.choice(["first", "second", "too close to call"]))
        return "first" if true[r, x] < true[r, y] else "second"

    found = learn_submetric(range(30), distance, alpha=0.1, representatives=[0, 1], closer=closer, noise=off)
    assert (found.distances <= true + 0.1 + 1e-12).all()


def test_without_the_widening_noise_does_break_it() -> None:
    """The mutant: the same arbiter, taken at its word."""
    broken = 0
    for seed in range(8):
        true, made = plane(30, seed), np.random.default_rng(seed)

        def distance(r: int, x: int, true: np.ndarray = true, made: np.random.Generator = made) -> float:
            return float(np.clip(true[r, x] + made.uniform(-0.15, 0.15), 0, 1))

        found = learn_submetric(range(30), distance, alpha=0.02, representatives=[0, 1], closer=lambda r, x, y: "first")
        broken += not (found.distances <= true + 0.02).all()
    assert broken


def test_an_interrupted_session_goes_on(tmp_path: Path) -> None:
    true = plane(12, 3)

    def answer(session: MetricSession) -> None:
        question = session.question
        if isinstance(question, CloserQuestion):
            near, far = true[question.representative, question.first], true[question.representative, question.second]
            session.answer("first" if near < far else "second")
        else:
            assert question is not None
            session.answer(float(true[question.representative, question.item]))

    session = MetricSession(12, alpha=0.1, representatives=[0, 5])
    for _ in range(20):
        answer(session)
    session.save(tmp_path / "session.json")
    again = MetricSession.load(tmp_path / "session.json")
    assert again.question == session.question and again.answers == session.answers
    for one in (session, again):
        while one.question is not None:
            answer(one)
    assert session.result is not None and again.result is not None
    assert (session.result.distances == again.result.distances).all()
    assert "comparisons" in str(session.result)


@pytest.mark.parametrize("given", ["third", 3, True])
def test_wrong_answers_are_refused_and_the_question_stays(given: object) -> None:
    session = MetricSession(3, alpha=0.5)
    before = session.question
    with pytest.raises(FairnessError) as error:
        session.answer(given)  # type: ignore[arg-type]
    assert error.value.code == "answer-unknown" and session.question == before


def test_a_file_that_is_no_session(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(FairnessError):
        MetricSession.load(tmp_path / "x.json")
    with pytest.raises(FairnessError):
        MetricSession(3, alpha=0.5, representatives=[7])
