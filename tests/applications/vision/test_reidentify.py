"""The adaptive attack on the AT&T faces: the book's Table 11.2, from below and from above."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from tests.applications.vision.faces import digits, faces

from tacit.applications.vision import (
    Blur,
    Mask,
    Pixelize,
    PixelSampling,
    PlainBlur,
    PlainPixelize,
    Reidentified,
    Singular,
    VisionError,
    plot_risk,
    reidentify,
)


def risk(method: object, splits: int = 2) -> float:
    """Percent of the test faces that are recognised: 40 people, 8 faces each to learn from, 2 to test."""
    images, people = faces()
    return 100 * reidentify(method, images, people, splits=splits).accuracy  # type: ignore[arg-type]


def test_plain_pixelization_hides_nobody() -> None:
    assert risk(PlainPixelize(16)) >= 95
    found = reidentify(PlainPixelize(16), *faces(), splits=1)
    assert found.people == 40 and found.tested == 80 and found.chance == 0.025


@pytest.mark.parametrize(("epsilon", "printed"), [("0.1", 5), ("0.5", 40), ("1", 80)])
def test_pixelization_with_noise_on_sums(epsilon: str, printed: float) -> None:
    """m = b = 16: 5 / 40 / 80 within 8 points (the book has 3.75 / 43.75 / 77.5)."""
    assert abs(risk(Pixelize(cell=16, pixels=16, epsilon=epsilon), 4) - printed) <= 8


def test_a_secret_of_the_size_of_a_face_is_hidden() -> None:
    assert risk(Pixelize(cell=16, pixels=360, epsilon=1)) <= 8


def test_singular_values_hide_nothing_from_a_learner() -> None:
    images, people = faces()
    few = people < 12
    method = Singular(rank=4, radius=1, epsilon="0.5")
    assert reidentify(method, images[few], people[few], splits=2).accuracy >= 0.95


@pytest.mark.slow
def test_singular_values_hide_nobody_of_forty() -> None:
    assert risk(Singular(rank=4, radius=1, epsilon="0.5"), 4) >= 95


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most"), [("0.1", 5), ("0.5", 10), ("1", 22)])
def test_blur_with_noise(epsilon: str, most: float) -> None:
    assert risk(Blur(kernel=99, pixels=16, epsilon=epsilon), 4) <= most


@pytest.mark.slow
def test_the_rest_of_the_specifications_table() -> None:
    assert risk(None, 4) >= 96 and risk(PlainBlur(kernel=99), 4) >= 85
    assert risk(Pixelize(cell=16, pixels=16, epsilon=4), 4) >= 90
    assert 8 <= risk(Pixelize(cell=16, pixels=64, epsilon=1), 4) <= 24 and risk(Pixelize(cell=16, pixels=64, epsilon=5), 4) >= 78
    assert 5 <= risk(Pixelize(cell=16, pixels=360, epsilon=5), 4) <= 21
    assert risk(PixelSampling(keep="0.05", pixels=1), 2) >= 75


@pytest.mark.slow
def test_digits_of_the_specification() -> None:
    """MNIST, 5,000 digits: plain pixelization 51; one correct scale would give 10 to 19, so do sums."""
    images, labels = digits()
    plain = 100 * reidentify(PlainPixelize(16), images, labels, splits=2).accuracy
    assert 40 <= plain <= 62
    for epsilon in ("0.1", "0.5", "1"):
        found = 100 * reidentify(Pixelize(cell=16, pixels=16, epsilon=epsilon), images, labels, splits=2).accuracy
        assert 8 <= found <= 30


def test_one_of_eighty_is_guessing() -> None:
    """E24: at a rate of 1/40, at most 1 of 80 has probability (39/40)^80 + 80/40 (39/40)^79 = .403."""
    q = 39 / 40
    assert round(q**80 + 80 * (1 / 40) * q**79, 3) == 0.403


def test_any_classifier_and_any_function() -> None:
    images, people = faces()
    few = people < 5
    found = reidentify(lambda image: image[::8, ::8], images[few], people[few], KNeighborsClassifier(1), splits=2)
    assert found.accuracy > 0.8 and len(found.each) == 2
    assert reidentify(Mask(), images[few], people[few], KNeighborsClassifier(1), splits=1).accuracy <= 0.4


def test_refusals() -> None:
    images, people = faces()
    for given, labels, said in (
        (images[:5], people[:4], "5 pictures have 4 labels"), (images[:10], people[:10], "two people"),
        ([images[0], images[1][:9]], [0, 1], "one size"), (images[:4], [0, 0, 0, 1], "two pictures each"),
        (images[:2].astype(float), [0, 1], "uint8"),
    ):  # fmt: skip
        with pytest.raises(VisionError, match=said):
            reidentify(None, given, labels)


def test_a_picture_of_the_risk(tmp_path: Path) -> None:
    found = Reidentified(0.4, (0.35, 0.45), 0.025, 40, 80)
    plot_risk({"pixelized": found}, path=tmp_path / "risk.png")
    assert (tmp_path / "risk.png").stat().st_size > 5000 and "40.0%" in str(found)
    assert found.to_json()["each"] == [0.35, 0.45]
    assert np.isfinite(found.accuracy)
