from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from tests.audit.toy_models import ridge, toy

from tacit.accounting import Gaussian, ParameterError
from tacit.audit.claim import Claim, judge
from tacit.audit.experiment import generator
from tacit.audit.models.canaries import audit_gradients, gradient_scores, mislabelled, most_gradient, most_loss, outlying


def test_outliers_are_found() -> None:
    x = generator(1).normal(size=(50, 3))
    x[17] += 20
    x[30] -= 30
    assert set(outlying(x, 2).tolist()) == {17, 30}
    with pytest.raises(ParameterError, match="choose from"):
        outlying(x, 51)


def test_records_the_model_does_worst_on_are_found() -> None:
    data = toy(80, columns=5)
    model = ridge(data)
    turned = data[0], np.where(np.arange(80) == 11, 1 - model.predict(data[0]), model.predict(data[0]))
    assert most_loss(model, turned, 1).tolist() == [11]
    assert most_gradient(model, (np.vstack([data[0], 50 * data[0][:1]]), np.append(turned[1], 1 - turned[1][0])), 1).tolist() == [80]


def test_labels_are_turned_to_others() -> None:
    x, y = np.arange(40.0)[:, None], np.arange(40) % 4
    inputs, labels = mislabelled((x, y), 40, 4, 3)
    assert (labels != y[inputs[:, 0].astype(int)]).all() and set(labels.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_scores_are_the_log_likelihood_ratio(rate: float) -> None:
    seen = np.array([[0.3, -2.0, 40.0], [1.5, 0.0, 0.0]])
    noise = 0.9
    ins = rate * norm.pdf(seen, 1, noise) + (1 - rate) * norm.pdf(seen, 0, noise)
    expected = np.log(ins[:, :2] / norm.pdf(seen[:, :2], 0, noise)).sum(axis=0)
    found = gradient_scores(seen, rate=rate, noise_multiplier=noise)
    np.testing.assert_allclose(found[:2], expected, rtol=1e-12)
    far = np.log(rate) + (2 * 40.0 - 1) / (2 * noise**2)  # where the density without it underflows
    assert found[2] == pytest.approx(far + np.log1p(rate * np.expm1(-1 / (2 * noise**2))), rel=1e-9)


def training(noise: float, shrink: float = 1.0) -> Any:
    torch = pytest.importorskip("torch")
    from tacit.deep import PoissonBatches, make_private
    from tacit.deep.private import Independent

    def make(*parts: Any) -> Any:
        run = make_private(*parts, noise_multiplier=noise, clip=1.0, sampler=PoissonBatches(300, 600), steps=4, loss_reduction="sum")
        if shrink != 1:

            class Less(Independent):
                def add(self, sums: torch.Tensor, noise: Any, times: float) -> Any:
                    return (sums + torch.randn_like(sums) * noise.deviation() * shrink) * times

            run._noise = Less()
        return run

    return make


def claimed(noise: float) -> Claim:
    from tacit.deep import PoissonBatches

    return Claim(PoissonBatches(300, 600).event(Gaussian(noise), 4))


def test_private_training_stays_below_its_claim_and_a_quarter_of_the_noise_is_caught() -> None:
    right = judge(claimed(1.0), audit_gradients(training(1.0), canaries=600, delta=0.02, confidence=0.99, seed=5))
    assert not right.broken and right.share > 0.3
    wrong = judge(claimed(1.0), audit_gradients(training(1.0, shrink=0.25), canaries=600, delta=0.02, confidence=0.99, seed=5))
    assert wrong.broken
    assert wrong.evidence.assumptions, "the independence that is used is stated"
