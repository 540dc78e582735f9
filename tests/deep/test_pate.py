"""Teachers and their votes: exact laws by quadrature, errata, a partition by person, reports that tell nothing private."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tacit.accounting import Composed, Gaussian, Laplace, ParameterError, PureDP, Repeated, account
from tacit.audit import Claim, attack, judge
from tacit.deep.pate import Ensemble, GaussianVotes, LaplaceVotes, label, partition, tally, train_student, train_teachers, winners
from tacit.deep.pate_cost import FINE
from tacit.ledger import Budget, BudgetExceeded, Ledger, ReleaseFailed
from tacit.noise import test_mode


def winner_law(votes: Sequence[int], scale: float, law: Any = stats.laplace) -> NDArray[np.float64]:
    """P[label j has the largest noisy count]: density times the others' distribution functions, by Gauss's rule on smooth pieces."""
    edges = np.unique(np.array(votes, dtype=float))
    outside = scale * np.array([2.0, 6.0, 14.0, 30.0, 60.0])
    cuts = np.unique(
        np.concatenate([edges[0] - outside, edges[-1] + outside, *(np.linspace(a, b, 9) for a, b in itertools.pairwise(edges)), edges])
    )
    nodes, weights = np.polynomial.legendre.leggauss(40)
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    x, w = (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
    below = [law.cdf(x, vote, scale) for vote in votes]
    return np.array(
        [(w * law.pdf(x, own, scale) * np.prod([b for k, b in enumerate(below) if k != j], axis=0)).sum() for j, own in enumerate(votes)]
    )


def chi(labels: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    n = len(labels)
    seen = np.bincount(labels, minlength=len(expected))
    statistic = ((seen - n * expected) ** 2 / (n * expected)).sum()
    return float(statistic / stats.chi2.ppf(1 - 1e-6, len(expected) - 1))


VOTES = [12, 9, 10]


@pytest.mark.parametrize(
    ("votes", "scale", "law"),
    [(LaplaceVotes(gamma=0.5), 4.0, stats.laplace), (GaussianVotes(sigma=3.0), 3.0, stats.norm)],
    ids=["laplace", "gaussian"],
)
def test_winners_have_their_law(votes: Any, scale: float, law: Any) -> None:
    expected = winner_law(VOTES, scale, law)
    assert expected.sum() == pytest.approx(1, abs=1e-9)
    with test_mode(31):
        labels = votes.answer([VOTES] * 20_000)
        mutant = type(votes)(votes.gamma * 1.3 if isinstance(votes, LaplaceVotes) else votes.sigma / 1.3).answer([VOTES] * 20_000)
    assert chi(labels, expected) < 1
    assert chi(mutant, expected) > 1, "noise that is too small is seen"


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=4), st.data(), st.sampled_from([0.1, 0.5, 1.5]))
def test_a_question_is_gamma_private(votes: list[int], data: st.DataObject, gamma: float) -> None:
    """One person moves one vote from a label to another: no answer becomes more than e^gamma times likelier."""
    source, target = data.draw(st.integers(0, len(votes) - 1)), data.draw(st.integers(0, len(votes) - 1))
    moved = list(votes)
    moved[source] -= 1
    moved[target] += 1
    first, second = winner_law(votes, 2 / gamma), winner_law(moved, 2 / gamma)
    assert np.abs(np.log(first / second)).max() <= gamma + 1e-6


def test_half_the_noise_is_not_gamma_private() -> None:
    """The mutant: scale 1/gamma, as if one count moved. Two labels, all votes on one side: the loss passes gamma."""
    first, second = winner_law([12, 0], 1.0), winner_law([11, 1], 1.0)
    assert np.abs(np.log(first / second)).max() > 1.5


def test_events() -> None:
    assert LaplaceVotes(0.5).event(7) == Repeated(Laplace(2), 7)
    assert account(LaplaceVotes(0.1).event(1)).epsilon(0).upper == pytest.approx(0.1)
    one = GaussianVotes(sigma=40).event(10)
    assert isinstance(one, Repeated) and isinstance(one.event, Gaussian)
    assert float(one.event.noise_multiplier) == pytest.approx(40 / math.sqrt(2)) and float(one.event.noise_multiplier) < 40 / math.sqrt(2)
    checked = GaussianVotes(sigma=40, threshold=200, check_sigma=60, answers=3).event(10)
    assert checked == Composed(Repeated(Gaussian(60), 10), Repeated(one.event, 3))


def test_only_confident_questions_are_answered_and_only_so_many() -> None:
    sure, unsure = [100, 0], [50, 50]
    votes = GaussianVotes(sigma=0.1, threshold=80, check_sigma=0.1, answers=2)
    with test_mode(2):
        assert votes.answer([sure, unsure, sure, sure]).tolist() == [0, -1, 0, -1]
    half = GaussianVotes(sigma=0.1, threshold=100.5, check_sigma=10.0, answers=4000)
    with test_mode(2):
        share = float((half.answer([[100, 0]] * 4000) >= 0).mean())
    assert abs(share - stats.norm.sf(0.0)) < 5 * 0.5 / math.sqrt(4000) + 0.04 * 0.5, "rounded noise of at least 1/2"


@pytest.mark.parametrize(
    "bad",
    [
        lambda: LaplaceVotes(0),
        lambda: GaussianVotes(-1),
        lambda: GaussianVotes(1, threshold=3),
        lambda: GaussianVotes(1, threshold=3, check_sigma=1, answers=0),
        lambda: LaplaceVotes(1).answer([1, 2]),
        lambda: LaplaceVotes(1).answer([[1]]),
        lambda: tally([1, 2], 3),
        lambda: LaplaceVotes(1).event(0),
        lambda: train_student(lambda x, y: 0, np.zeros(3), [1]),
    ],
    ids=["gamma", "sigma", "half confident", "no answers", "flat", "one class", "flat votes", "no questions", "student"],
)
def test_refusals(bad: Any) -> None:
    with pytest.raises(ParameterError):
        bad()


def test_noisy_counts_are_compared_exactly() -> None:
    """A lead of one part in 2^20 of a vote decides, beside counts and noise where floating point would have lost it."""
    big = 2**40
    assert winners(np.array([[big, big]]), np.array([[5, 6]])).tolist() == [1]
    assert winners(np.array([[big + 1, big]]), np.array([[0, FINE + 1]])).tolist() == [1]


def test_votes_for_no_class_count_for_none() -> None:
    odd: list[Any] = [
        lambda x: [0] * len(x),
        lambda x: [7] * len(x),
        lambda x: [-1] * len(x),
        lambda x: [math.nan, math.inf, 0.5],
        lambda x: [1e300] * len(x),
    ]
    ensemble = Ensemble(odd, classes=2, votes=LaplaceVotes(50))
    assert ensemble.label([1, 2, 3]).tolist() == [0, 0, 0]
    assert np.concatenate(ensemble._cast).tolist() == [[1, 0]] * 3
    with pytest.raises(ReleaseFailed, match="one label for each"):
        Ensemble([lambda x: [0]], classes=2, votes=LaplaceVotes(1)).label([1, 2])


# The partition


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), max_size=25), st.integers(1, 5))
def test_a_person_reaches_one_teacher(people: list[str], teachers: int) -> None:
    parts = partition(people, teachers)
    assert len(parts) == teachers and sorted(np.concatenate(parts).tolist()) == list(range(len(people)))
    for person in set(people):
        assert sum(any(people[row] == person for row in part) for part in parts) == 1


def test_a_person_moves_one_vote_of_each_question() -> None:
    """End to end: with the same partition, other records of one person change at most one teacher, so two counts by one."""
    people = np.arange(40) % 20
    for seed in range(5):
        with test_mode(seed):
            parts = partition(people, 6)
        before, after = np.arange(40) % 3, np.arange(40) % 3
        after[people == 7] = (after[people == 7] + 1) % 3
        cast = [
            tally([[int(np.bincount(column[part], minlength=3).argmax()) if len(part) else 0] * 4 for part in parts], 3)
            for column in (before, after)
        ]
        assert np.abs(cast[0] - cast[1]).sum(axis=1).max() <= 2


def test_people_are_spread_uniformly_and_independently() -> None:
    with test_mode(6):
        owner = np.zeros(3000, dtype=np.int64)
        for teacher, rows in enumerate(partition(np.arange(3000), 4)):
            owner[rows] = teacher
    assert chi(owner, np.full(4, 0.25)) < 1
    assert chi(owner[:-1] * 4 + owner[1:], np.full(16, 1 / 16)) < 1


# Teachers, reports, a student


def test_teachers_of_scikit_learn_teach_a_student(tmp_path: Path) -> None:
    from sklearn.datasets import make_blobs
    from sklearn.linear_model import LogisticRegression

    inputs, truth = make_blobs(1200, centers=3, random_state=0, cluster_std=1.0)
    private, public = slice(0, 1000), slice(1000, None)

    def fit(rows: NDArray[np.int64]) -> LogisticRegression:
        return LogisticRegression(max_iter=50).fit(inputs[private][rows], truth[private][rows])

    with test_mode(10):
        purse = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("labels", Budget(epsilon="10", delta="1e-5"))
        ensemble = Ensemble(train_teachers(fit, np.arange(1000), 20), 3, GaussianVotes(6.0), account=purse, delta=1e-5)
        labels = ensemble.label(inputs[public][:60])
        student = train_student(lambda x, y: LogisticRegression(max_iter=50).fit(x, y), inputs[public][:60], labels)
        assert student.score(inputs[public][60:], truth[public][60:]) > 0.8
        with pytest.raises(BudgetExceeded):
            ensemble.label(inputs[public])
        assert len(np.concatenate(ensemble._cast)) == 60, "refused before a teacher was asked"
    report = ensemble.report(1e-5)
    assert report.independent.upper <= 10 and report.dependent is None and report.published is None
    inside = ensemble.report(1e-5, publish=False).dependent
    assert inside is not None and inside > 0
    with pytest.raises(ParameterError, match="after the first label"):
        Ensemble(ensemble.teachers, 3, GaussianVotes(6.0)).report(1e-5, publish=False)


def unanimous(k: int = 300) -> Ensemble[Any]:
    return Ensemble([lambda x: [1] * len(x)] * k, classes=3, votes=LaplaceVotes(0.1))


def test_a_report_to_publish_does_not_depend_on_the_votes() -> None:
    split: Ensemble[Any] = Ensemble([lambda x, k=k: [k % 3] * len(x) for k in range(300)], 3, LaplaceVotes(0.1))
    same = unanimous()
    for ensemble in (split, same):
        ensemble.label(range(50))
    assert split.report(1e-5) == same.report(1e-5)
    assert split.report(1e-5).independent == account(LaplaceVotes(0.1).event(50)).epsilon(1e-5)
    inside = [ensemble.report(1e-5, publish=False).dependent for ensemble in (split, same)]
    assert inside[0] is not None and inside[1] is not None and inside[1] < inside[0]
    assert "300 teachers" in repr(same) and "50" not in repr(same) and "_cast" not in repr(same)


def test_a_sanitised_report_is_paid_for() -> None:
    ensemble = unanimous()
    ensemble.label(range(50))
    before = account(ensemble.event).epsilon(1e-5).upper
    report = ensemble.report(1e-5, sanitise=1.0, order=15)
    assert report.published is not None and report.published.event == PureDP(1.0) and report.dependent is None
    assert account(ensemble.event).epsilon(1e-5).upper > before, "the release is on the bill"


def test_a_release_that_is_not_paid_is_not_made(tmp_path: Path) -> None:
    purse = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("labels", Budget(epsilon="0.9", delta="1e-5"))
    ensemble = Ensemble([lambda x: [1] * len(x)] * 30, 2, LaplaceVotes(0.1), account=purse, delta=1e-5)
    ensemble.label(range(5))
    with pytest.raises(BudgetExceeded):
        ensemble.report(1e-5, sanitise=1.0)


# From below


def audited(votes: Any, claimed: Any) -> Any:
    """One question whose teachers are 16 to 14, or 15 to 15: one person's doing."""
    n = 20_000
    with test_mode(40):
        first, second = votes.answer([[16, 14]] * n), votes.answer([[15, 15]] * n)
    found = attack(lambda _: first, lambda _: second, n, confidence=0.999, seed=1, delta=1e-3)
    return judge(Claim(claimed.event(1)), found)


@pytest.mark.parametrize(
    ("votes", "mutant"), [(LaplaceVotes(1.0), LaplaceVotes(4.0)), (GaussianVotes(2.0), GaussianVotes(0.5))], ids=["laplace", "gaussian"]
)
def test_votes_stay_under_their_claim_and_too_little_noise_is_caught(votes: Any, mutant: Any) -> None:
    honest = audited(votes, votes)
    assert not honest.broken and honest.share > 0.25, str(honest)
    assert audited(mutant, votes).broken


def test_label_is_the_short_form() -> None:
    with test_mode(1):
        assert label([lambda x: [1, 0]] * 50, ["a", "b"], classes=2, votes=LaplaceVotes(5)).tolist() == [1, 0]
