"""Pixels one by one: the channel by enumeration, the coin flip's delta for every epsilon, the delta of sampling."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Adjacency, account
from tacit.applications.vision import PixelResponse, PixelSampling, VisionError, release
from tacit.applications.vision.images import boxes_in
from tacit.errors import ParameterError


@pytest.mark.parametrize(("epsilon", "truth"), [(1, 0.0105), (5, 0.368)])
def test_the_chance_of_the_truth(epsilon: int, truth: float) -> None:
    assert round(PixelResponse(pixels=1, epsilon=epsilon).truth(), 4 if epsilon == 1 else 3) == truth


def test_the_channel_loses_what_it_says() -> None:
    """All 256 reports of two levels: the ratio is e^(epsilon / (m c)), so m pixels of c channels lose epsilon."""
    response = PixelResponse(pixels=2, epsilon=3).response(3)
    first, second = response.distribution(0), response.distribution(255)
    worst = max(max(first[r][1] / second[r][0], second[r][1] / first[r][0]) for r in first)
    assert 6 * math.log(worst) == pytest.approx(3, rel=1e-12)


def test_reports_are_true_as_often_as_they_should_be() -> None:
    image = np.full((100, 100), 77, np.uint8)
    made = PixelResponse(pixels=1, epsilon=5).hidden(image, boxes_in(image.shape, None))
    # 10,000 coins of .368: five deviations, 6e-7
    assert abs(float((made == 77).mean()) - 0.3679) < 5 * math.sqrt(0.368 * 0.632 / 10_000)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 10.0])
def test_the_coin_flip_has_its_delta_at_every_epsilon(epsilon: float) -> None:
    """E15, by the law itself: for a pixel of 0 or 255, delta(epsilon) = sum max(0, P - e^epsilon Q) = p."""
    p = 0.3
    law = {0: {0: p, 127: 1 - p}, 255: {255: p, 127: 1 - p}}
    exact = sum(max(0.0, law[0].get(o, 0.0) - math.exp(epsilon) * law[255].get(o, 0.0)) for o in (0, 127, 255))
    assert exact == pytest.approx(p)
    found = account(PixelSampling(keep="0.3", pixels=1).event, Adjacency.REPLACE_ONE).delta(epsilon)
    assert found.upper == pytest.approx(p, rel=1e-9) and found.upper >= p - 1e-15


@pytest.mark.parametrize(("keep", "delta"), [("1e-4", 0.66), ("1e-6", 0.011)])
def test_the_delta_of_pixel_sampling_in_a_video(keep: str, delta: float) -> None:
    method = PixelSampling(keep=keep, pixels=360, frames=30)
    exact = 1 - (1 - Fraction(keep)) ** 10_800
    assert Fraction(method.delta) >= exact and method.delta == pytest.approx(float(exact), rel=1e-11)
    assert round(method.delta, 2 if delta > 0.1 else 3) == delta
    assert "30 frames" in method.unit


def test_sampling_keeps_whole_pixels_or_shows_the_middle() -> None:
    image = np.random.default_rng(2).integers(0, 100, (80, 80, 3), dtype=np.uint8)
    made = release(PixelSampling(keep="0.25", pixels=1), image).pixels
    kept = (made == image).all(axis=2)
    assert ((made == 127).all(axis=2) | kept).all()
    assert abs(float(kept.mean()) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 6400)


def test_what_has_no_price_is_refused() -> None:
    for keep in (0, 1, -1, 2, math.nan):
        with pytest.raises(ParameterError, match="keep"):
            PixelSampling(keep=keep, pixels=1)
    with pytest.raises(VisionError, match="epsilon alone"):
        PixelResponse(pixels=1, guarantee="eps=1, delta=1e-6")
    with pytest.raises(ParameterError, match="at most 50"):
        release(PixelResponse(pixels=1, epsilon=60), np.zeros((2, 2), np.uint8))
