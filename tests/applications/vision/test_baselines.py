"""Older ways to hide: what they do, that they say "no guarantee", and that they cannot be paid for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from tests.applications.vision.faces import faces

from tacit.applications.vision import Adversarial, FlipAttribute, KSame, Mask, PictureMethod, PlainBlur, PlainPixelize, VisionError, release
from tacit.applications.vision.baselines import NOTHING


def learner() -> tuple[RidgeClassifier, np.ndarray, np.ndarray]:
    """Whether a picture is bright at the left or at the right, from noisy pictures."""
    draw = np.random.default_rng(1)
    pictures = draw.integers(80, 120, (60, 6, 6)).astype(np.uint8)
    labels = np.arange(60) % 2
    pictures[labels == 1, :, :3] += 60
    pictures[labels == 0, :, 3:] += 60
    return RidgeClassifier().fit(pictures.reshape(60, -1), labels), pictures, labels


def test_each_says_that_it_promises_nothing() -> None:
    model = learner()[0]
    gallery = (np.zeros((6, 6), np.uint8), np.full((6, 6), 9, np.uint8))
    for method in (Mask(), PlainPixelize(2), PlainBlur(3), KSame(gallery, 2), Adversarial(model, 5), FlipAttribute(model)):
        assert isinstance(method, PictureMethod) and method.event is None and method.unit == NOTHING == "no guarantee"
        found = release(method, np.full((6, 6), 100, np.uint8))
        assert found.event is None and not found.private and "no guarantee" in repr(found)


def test_k_same_is_the_mean_of_the_nearest_faces() -> None:
    gallery = tuple(np.full((4, 4), level, np.uint8) for level in (0, 10, 20, 200))
    made = KSame(gallery, 2).changed(np.full((4, 4), 14, np.uint8))
    assert (made == 15).all()
    with pytest.raises(VisionError, match="at least k = 5"):
        KSame(gallery, 5)
    with pytest.raises(VisionError, match="same size"):
        release(KSame(gallery, 2), np.zeros((5, 5), np.uint8))


def test_adversarial_perturbation_fools_its_own_classifier_only() -> None:
    model, pictures, labels = learner()
    method = Adversarial(model, strength=60)
    fooled = np.stack([method.changed(image) for image in pictures])
    assert model.score(pictures.reshape(60, -1), labels) == 1.0
    assert model.score(fooled.reshape(60, -1), labels) < 0.2
    adaptive = RidgeClassifier().fit(fooled[:40].reshape(40, -1), labels[:40])
    assert adaptive.score(fooled[40:].reshape(20, -1), labels[40:]) > 0.9


def test_an_attribute_is_flipped_for_one_classifier() -> None:
    model, pictures, labels = learner()
    flipped = np.stack([FlipAttribute(model).changed(image) for image in pictures]).reshape(60, -1)
    assert model.score(flipped, labels) < 0.05
    several = RidgeClassifier().fit(pictures.reshape(60, -1), np.arange(60) % 3)
    with pytest.raises(VisionError, match="two classes"):
        FlipAttribute(several).changed(pictures[0])
    with pytest.raises(VisionError, match="coef_"):
        Adversarial(object(), 3).changed(pictures[0])


def test_plain_pixelization_is_the_mean_of_cells() -> None:
    face = faces()[0][0]
    made = PlainPixelize(16).changed(face)
    assert made[0, 0] == round(float(face[:16, :16].mean())) and made[111, 91] == round(float(face[96:, 80:].mean()))
