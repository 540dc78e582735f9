"""Singular values: the price at a radius, the mean move, what is published as it is, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.applications.vision.faces import faces

from tacit.accounting import PureDP
from tacit.applications.vision import Singular, VisionError, mse, release
from tacit.applications.vision.images import boxes_in
from tacit.applications.vision.singular import FINE, farthest_move

METHOD = Singular(rank=4, radius=1, epsilon="0.5")


def test_the_noise_pays_for_the_radius_and_its_rounding() -> None:
    """Two vectors within the radius are, on the lattice, at most 4096 + 2 sqrt(4) granules apart; that costs epsilon."""
    event = METHOD.plan().event(FINE + 4)
    assert isinstance(event, PureDP) and float(event.epsilon) <= 0.5 and float(event.epsilon) == pytest.approx(0.5, rel=1e-6)


def test_the_first_face_of_the_specification() -> None:
    values = np.linalg.svd(faces()[0][0].astype(float), compute_uv=False)[:4]
    assert [round(v) for v in values] == [13779, 2247, 1049, 957]
    assert METHOD.mean_move() == 8


def test_values_move_by_eight_on_average() -> None:
    plan = METHOD.plan()
    moves = [float(np.linalg.norm(plan.function(np.zeros(4, np.int64)))) for _ in range(400)]
    # a Gamma law of shape 4 and scale 2: mean 8, deviation 4; five standard errors
    assert abs(np.mean(moves) - 8) < 5 * 4 / math.sqrt(400)


def test_singular_vectors_are_published_as_they_are() -> None:
    """What the page warns of: the released face is the face's own rank-4 approximation, moved by a few levels."""
    face = faces()[0][0]
    u, s, v = np.linalg.svd(face.astype(float), full_matrices=False)
    plain = np.rint(np.clip((u[:, :4] * s[:4]) @ v[:4], 0, 255)).astype(np.uint8)
    assert mse(release(METHOD, face).pixels, plain) < 1


def test_colour_has_its_values_in_one_vector() -> None:
    image = np.random.default_rng(3).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    made = release(METHOD, image)
    assert made.pixels.shape == image.shape and made.event == METHOD.event and METHOD.mean_move(3) == 24


def test_values_of_near_pictures_are_near() -> None:
    """Mirsky's theorem, which says how large a radius is needed: values move by no more than the picture."""
    draw = np.random.default_rng(8)
    for _ in range(20):
        first = draw.integers(0, 256, (9, 7), dtype=np.uint8)
        second = np.clip(first + draw.integers(-9, 10, (9, 7)), 0, 255).astype(np.uint8)
        assert farthest_move(first, second, 4) <= np.linalg.norm(first.astype(float) - second) + 1e-9


def test_refusals_by_name() -> None:
    image = np.zeros((8, 8), np.uint8)
    with pytest.raises(VisionError, match="one box"):
        release(METHOD, image, [(0, 0, 4, 4), (4, 4, 4, 4)])
    with pytest.raises(VisionError, match="only 3 singular values"):
        release(METHOD, image, [(0, 0, 3, 8)])
    with pytest.raises(VisionError, match="at most 16"):
        Singular(rank=6, radius=1, epsilon=1).checked((9, 9, 3), boxes_in((9, 9, 3), None))
    with pytest.raises(VisionError, match="radius"):
        Singular(rank=4, radius=0, epsilon=1)
    with pytest.raises(VisionError, match="epsilon alone"):
        Singular(rank=4, radius=1, guarantee="rho=0.1")
