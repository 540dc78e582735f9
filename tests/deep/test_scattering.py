"""Scattering features: against sums by hand, not expansive, nearly the same for moved pictures, and of use to a linear model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

from tacit.accounting import ParameterError
from tacit.deep import Scattering, make_private_with_epsilon
from tacit.deep.samplers import PoissonBatches

SMALL = Scattering(size=8, scales=1, angles=4)


def pictures(number: int, size: int = 8) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(number, size, size))


def convolved(picture: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """A circular convolution by its definition."""
    size = len(picture)
    found = np.zeros((size, size), dtype=complex)
    for i in range(size):
        for j in range(size):
            found[i, j] = sum(picture[a, b] * kernel[(i - a) % size, (j - b) % size] for a in range(size) for b in range(size))
    return found


def test_first_order_by_sums() -> None:
    low, wavelets = SMALL.filters
    picture = pictures(1)[0]
    kernel, psi = np.fft.ifft2(low), np.fft.ifft2(wavelets[2][1])
    means = convolved(picture, kernel).real[::2, ::2]
    first = convolved(np.abs(convolved(picture, psi)), kernel).real[::2, ::2]
    found = SMALL(picture[None]).reshape(SMALL.channels, 4, 4)
    assert np.allclose(found[0], means, atol=1e-12)
    assert np.allclose(found[3], first, atol=1e-12)


@pytest.mark.parametrize("features", [SMALL, Scattering(16, 2, 8), Scattering(32, 3, 6), Scattering(8, 1, 1, order=1)], ids=str)
def test_gains_and_distances(features: Scattering) -> None:
    """The squared gains at a frequency, half of each of a pair, add up to at most 1, so no two pictures move apart."""
    low, wavelets = features.filters
    mirrored = [np.roll(gain[::-1, ::-1], 1, axis=(0, 1)) for _, gain in wavelets]
    energy = low**2 + sum((gain**2 + other**2) / 2 for (_, gain), other in zip(wavelets, mirrored, strict=True))
    assert energy.max() <= 1 + 1e-9
    assert energy.max() > 0.9
    assert max(np.abs(gain[0, 0]) for _, gain in wavelets) < 1e-12
    x = pictures(20, features.size)
    made = features(x)
    for k in range(19):
        assert np.linalg.norm(made[k] - made[k + 1]) <= np.linalg.norm(x[k] - x[k + 1])
    assert made.shape == (20, features.channels * features.places)


def test_a_constant_picture_has_its_mean_alone() -> None:
    found = SMALL(np.full((1, 8, 8), 3.0)).reshape(SMALL.channels, -1)
    assert np.allclose(found[1:], 0, atol=1e-9)
    assert np.allclose(found[0], 3 * SMALL.filters[0][0, 0])


def test_a_picture_that_moves_changes_less_than_its_numbers() -> None:
    """A bright spot moved by one place of 32: all its numbers change, the features by a third of that at most."""
    features = Scattering(32, 3, 8)
    x = np.zeros((2, 32, 32))
    x[0, 10:13, 10:13] = x[1, 10:13, 11:14] = np.random.default_rng(0).normal(size=(3, 3))
    made = features(x)
    moved = np.linalg.norm(made[0] - made[1]) / np.linalg.norm(made[0])
    assert moved < 0.4 * np.linalg.norm(x[0] - x[1]) / np.linalg.norm(x[0])


def test_odd_pictures_do_not_show() -> None:
    x = pictures(3)
    x[1, 2, 3], x[2, 0, 0] = np.nan, np.inf
    assert np.isfinite(SMALL(x)).all()
    assert np.array_equal(SMALL(x)[0], SMALL(x[:1])[0])


def test_refusals() -> None:
    with pytest.raises(ParameterError, match=r"multiple of 2\^scales"):
        Scattering(10, 2)
    with pytest.raises(ParameterError, match="order must be"):
        Scattering(8, 2, order=3)
    with pytest.raises(ParameterError, match="shape"):
        SMALL(np.zeros((3, 9, 9)))


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x.reshape(-1, 8, 8) / 16, y


def test_a_linear_model_likes_them() -> None:
    """Digits: a plain linear model errs less on the features than on the numbers of the picture."""
    x, y = digits()
    made = Scattering(8, 1, 8)(x)
    flat = x.reshape(len(x), -1)
    errors = []
    for inputs in (flat, made):
        inputs = (inputs - inputs[:1000].mean(0)) / (inputs[:1000].std(0) + 1e-3)
        model = LogisticRegression(C=0.1, max_iter=200).fit(inputs[:1000], y[:1000])
        errors.append(1 - model.score(inputs[1000:], y[1000:]))
    assert errors[1] < errors[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.deep.NoiseDrownsSignal")
def test_the_private_baseline_tells_digits() -> None:
    """Epsilon 3, a linear layer on scattering features. The convolutional network of examples/pytorch is the better one here (.855)."""
    x, y = digits()
    made = torch.tensor(Scattering(8, 1, 8)(x), dtype=torch.float32)
    made = made / made[1500:].norm(dim=1).mean()
    labels = torch.tensor(y)
    model = nn.Linear(made.shape[1], 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0)
    private = make_private_with_epsilon(
        model, optimizer, (made[:1500], labels[:1500]), epsilon=3, delta=1e-5, clip=0.5, sampler=PoissonBatches(250, 1500), epochs=30
    )
    for _ in range(30):
        for a, b in private.loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
    accuracy = (model(made[1500:]).argmax(1) == labels[1500:]).float().mean().item()
    assert accuracy > 0.8
