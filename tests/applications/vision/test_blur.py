"""Blur: post-processing of small cells, its kernel, its refusals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.applications.vision.faces import faces

from tacit.applications.vision import Blur, PlainBlur, VisionError, mse, release
from tacit.applications.vision.blur import sigma_of, smoothed
from tacit.applications.vision.images import boxes_in


def test_the_price_is_that_of_its_cells() -> None:
    method = Blur(kernel=99, pixels=16, epsilon=1)
    assert method.event == method.measured.event and method.unit == method.measured.unit
    assert method.measured.scale() == 255 * 16 / 16


def test_the_usual_sigma() -> None:
    assert sigma_of(99) == pytest.approx(15.2) and sigma_of(3) == pytest.approx(0.8)


def test_without_noise_it_is_near_the_plain_blur() -> None:
    image = faces()[0][0]
    quiet = Blur(kernel=31, pixels=1, epsilon=10**7).hidden(image, boxes_in(image.shape, None))
    assert mse(quiet, PlainBlur(kernel=31).changed(image)) < 2


def test_smoothing_keeps_a_flat_picture_and_its_mass() -> None:
    flat = np.full((30, 40, 3), 17.0)
    assert np.allclose(smoothed(flat, 9), flat)
    point = np.zeros((41, 41))
    point[20, 20] = 1.0
    made = smoothed(point, 9)
    assert made.sum() == pytest.approx(1) and made[20, 20 + 5] == 0 and made[20, 20 + 4] > 0


def test_noise_is_smoothed_before_it_is_clipped() -> None:
    """Clipped noise has a mean of its own: a dark picture would come out grey."""
    dark = release(Blur(kernel=99, pixels=16, epsilon=1), np.full((120, 120), 20, np.uint8)).pixels
    assert float(dark.mean()) < 60


def test_an_even_kernel_is_refused() -> None:
    for made in (lambda: Blur(kernel=98, pixels=16, epsilon=1), lambda: PlainBlur(kernel=4)):
        with pytest.raises(VisionError, match="odd"):
            made()
