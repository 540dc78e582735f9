"""Measures of quality: closed forms, scikit-image, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from tacit.applications.vision import (
    Pixelize,
    VisionError,
    correlation,
    histogram,
    js_divergence,
    kl_divergence,
    mse,
    psnr,
    quality,
    release,
    ssim,
    stay_time_error,
)
from tacit.applications.vision.quality import decibels, table

CAMERA = data.camera()


def test_the_shifted_boat_of_the_book() -> None:
    """MSE 210 is a shift by 14.49 and 24.909 dB; SSIM of a shift has a luminance term only, about .99 at mean 128."""
    assert round(math.sqrt(210), 2) == 14.49 and round(decibels(210), 3) == 24.909
    one, other = 128.0, 128.0 + 14.49
    assert round((2 * one * other + 2.55**2) / (one**2 + other**2 + 2.55**2), 3) == pytest.approx(0.994, abs=1e-3)
    half = (CAMERA // 2 + 64).astype(np.uint8)
    shifted = half + np.where(np.indices(half.shape).sum(axis=0) % 2, 14, 15).astype(np.uint8)
    assert abs(mse(half, shifted) - 210) < 1 and ssim(half, half + np.uint8(14)) > 0.975


def test_they_agree_with_scikit_image() -> None:
    for image in (CAMERA, data.astronaut()):
        hidden = release(Pixelize(cell=8, pixels=4, epsilon=1), image).pixels
        assert psnr(image, hidden) == pytest.approx(peak_signal_noise_ratio(image, hidden, data_range=255))
        axis = 2 if image.ndim == 3 else None
        assert ssim(image, hidden) == pytest.approx(structural_similarity(image, hidden, data_range=255, channel_axis=axis))


def test_equal_pictures() -> None:
    found = quality(CAMERA, CAMERA)
    assert found == {"mse": 0.0, "psnr": math.inf, "ssim": pytest.approx(1.0), "histogram_kl": 0.0, "histogram_js": 0.0}


def test_divergences() -> None:
    p, q = np.array([0.5, 0.5, 0]), np.array([0.25, 0.25, 0.5])
    assert kl_divergence(p, q) == pytest.approx(math.log(2)) and kl_divergence(q, p) == math.inf
    middle = (p + q) / 2
    assert js_divergence(p, q) == pytest.approx((kl_divergence(p, middle) + kl_divergence(q, middle)) / 2)
    assert histogram(data.astronaut()).shape == (3, 32) and histogram(CAMERA).sum() == pytest.approx(1)


def test_less_noise_is_better_in_every_measure() -> None:
    rough, fine = (quality(CAMERA, release(Pixelize(cell=8, pixels=4, epsilon=e), CAMERA).pixels) for e in ("0.1", "10"))
    assert fine["mse"] < rough["mse"] and fine["psnr"] > rough["psnr"] and fine["ssim"] > rough["ssim"]
    assert fine["histogram_js"] < rough["histogram_js"]


def test_limits_and_refusals() -> None:
    assert correlation(np.zeros((2, 2)), np.eye(2)) == 0 and correlation(np.eye(2), -np.eye(2)) == -1
    assert stay_time_error(np.ones((2, 4)), np.zeros((2, 4)), seconds=0.5) == 2
    with pytest.raises(VisionError, match="different sizes"):
        mse(CAMERA, CAMERA[:-1])
    with pytest.raises(VisionError, match="3 x 3"):
        ssim(np.zeros((2, 9), np.uint8), np.zeros((2, 9), np.uint8))
    assert "mse" in table({"a": {"mse": 1.0}, "b": {"ssim": 0.5}})
