"""Curves: exact and held-out errors agree with a plain loop, counts are read off as defined."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.leakage.builders import Grid, planar_geometric, sample_planar_laplace, truncated_geometric
from tacit.audit.leakage.estimators import RULES, Convergence, convergence, fit, geometric_sizes

SYSTEM = truncated_geometric(6, 60, 0.2)
LABELS, SEEN = SYSTEM.sample(3000, generator(1))


def test_each_point_is_a_fit_to_the_first_examples() -> None:
    found = convergence(LABELS, SEEN, channel=SYSTEM, sizes=[5, 40, 700, 3000])
    truth, fresh = SYSTEM.sample(4000, generator(2))
    held = convergence(LABELS, SEEN, validation=(truth, fresh), sizes=[5, 40, 700, 3000])
    for rule in RULES:
        for i, n in enumerate([5, 40, 700, 3000]):
            guess = fit(rule, LABELS[:n], SEEN[:n], secrets=6).predict(np.arange(60))
            assert found.risks[rule][i] == SYSTEM.risk_of(guess)
            assert held.risks[rule][i] == (guess[fresh] != truth).mean()
    assert found.bayes_risk == SYSTEM.bayes_risk() and found.validation is None and held.validation == 4000 and held.bayes_risk is None
    assert found.guess_risk == pytest.approx(5 / 6) and held.guess_risk == pytest.approx(5 / 6, abs=0.03)
    assert found.last()["nearest"] == found.risks["nearest"][-1]


def test_errors_never_lie_below_the_bayes_risk() -> None:
    found = convergence(LABELS, SEEN, channel=SYSTEM)
    assert found.sizes[0] == 5 and found.sizes[-1] == 3000
    assert all((risks >= SYSTEM.bayes_risk()).all() for risks in found.risks.values())


def test_vectors_are_learnt_on_a_grid_and_in_the_plane() -> None:
    map_ = Grid(3, 3, 150)
    system = planar_geometric(map_, map_.around(2, 5), 8)
    labels, columns = system.sample(4000, generator(3))
    exact = convergence(labels, columns, channel=system, sizes=[50, 4000])
    assert exact.risks["knn-ln"][1] < 1.1 * system.bayes_risk() < exact.risks["frequentist"][1], "neighbours help where outputs are many"
    s, points = sample_planar_laplace(map_, 8, 6000, generator(4))
    held = convergence(s[:4000], points[:4000], validation=(s[4000:], points[4000:]), rules=["frequentist", "knn-ln"], sizes=[4000])
    assert held.risks["frequentist"][0] > 0.85, "no point comes twice: counting learns nothing"
    assert held.risks["knn-ln"][0] == pytest.approx(exact.risks["knn-ln"][1], abs=0.06)


def test_counts_are_read_off_the_curve() -> None:
    curve = Convergence(np.array([5, 10, 20, 40]), {"a": np.array([0.9, 0.55, 0.52, 0.5])}, 0.9, 0.5, None)
    assert curve.examples_to_converge("a", 0.11) == 10 and curve.examples_to_converge("a", 0.05) == 20
    assert curve.examples_to_converge("a", 0.05, absolute=True) == 20 and curve.examples_to_converge("a", 0.06, absolute=True) == 10
    assert curve.examples_to_converge("a", 0.01, target=0.6) is None
    tiny = Convergence(np.array([5, 10]), {"a": np.array([0.3, 0.04])}, 0.9, 1e-22, None)
    assert tiny.examples_to_converge("a", 0.05) == 10, "a risk of about zero is compared absolutely"
    assert curve.settled("a", 0.04, share=0.5) == 40 and curve.settled("a", 1e-9) is None
    with pytest.raises(ParameterError, match="target"):
        Convergence(np.array([5]), {"a": np.array([0.3])}, 0.9, None, 10).examples_to_converge("a", 0.1)
    with pytest.raises(ParameterError, match="rule"):
        curve.examples_to_converge("b", 0.1)


def test_sizes() -> None:
    sizes = geometric_sizes(5, 10_000, 1.05)
    assert sizes[0] == 5 and sizes[-1] == 10_000 and (np.diff(sizes) > 0).all()
    assert geometric_sizes(7, 7).tolist() == [7]
    with pytest.raises(ParameterError, match="ratio"):
        geometric_sizes(5, 10, 1.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: convergence([0], [0]), "either"),
        (lambda: convergence(LABELS, SEEN, channel=SYSTEM, validation=(LABELS, SEEN)), "either"),
        (lambda: convergence(LABELS, SEEN, channel=SYSTEM, sizes=[5, 5]), "sizes"),
        (lambda: convergence(LABELS, SEEN, channel=SYSTEM, sizes=[5000]), "sizes"),
        (lambda: convergence([9], [0], channel=SYSTEM, sizes=[1]), "rows and columns"),
    ],
    ids=["neither", "both", "equal sizes", "too many", "label"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
