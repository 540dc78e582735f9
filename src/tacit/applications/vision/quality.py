"""How much of a picture, a count or a track is left: the measures of the book's Section 11.3.

Compare a hidden picture with its original, on public pictures or before you publish: the result is not private.
`quality` gives all measures of two pictures at once.

>>> import numpy as np
>>> grey = np.tile(np.arange(64, dtype=np.uint8), (64, 1))
>>> found = quality(grey, grey + 10)
>>> found["mse"], round(found["psnr"], 2), round(decibels(210), 3)
(100.0, 28.13, 24.909)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.applications.vision.images import Pixels, VisionError, picture
from tacit.errors import PackageMissing

Points = NDArray[np.float64] | Sequence[Sequence[float]]


def _pair(first: Any, second: Any) -> tuple[Pixels, Pixels]:
    one, two = picture(first), picture(second)
    if one.shape != two.shape:
        raise VisionError("the two pictures have different sizes or kinds; compare a picture with its own hidden form")
    return one, two


def mse(first: Pixels, second: Pixels) -> float:
    """The mean square difference of two pictures, over pixels and channels."""
    one, two = _pair(first, second)
    return float(np.mean((one.astype(np.float64) - two.astype(np.float64)) ** 2))


def decibels(error: float) -> float:
    """10 log10(255^2 / MSE), infinite for no error. The printed "ratio" leaves square and logarithm out."""
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def psnr(first: Pixels, second: Pixels) -> float:
    """The peak signal-to-noise ratio of two pictures, in decibels."""
    return decibels(mse(first, second))


def ssim(first: Pixels, second: Pixels) -> float:
    """The structural similarity (Wang et al. 2004) by scikit-image, on the range of 8 bits; 1 for equal pictures."""
    one, two = _pair(first, second)
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise PackageMissing(code="package-missing", package="scikit-image", install="'tacit[vision]'") from None
    side = min(7, min(one.shape[:2]) - (min(one.shape[:2]) + 1) % 2)
    if side < 3:
        raise VisionError("structural similarity needs pictures of at least 3 x 3 pixels")
    found = cast(Any, structural_similarity)(one, two, data_range=255, win_size=side, channel_axis=2 if one.ndim == 3 else None)
    return float(found)


def histogram(image: Pixels, bins: int = 32) -> NDArray[np.float64]:
    """The shares of the levels, channel after channel; each channel's shares add up to 1."""
    given = picture(image)
    layers = given.reshape(-1, 1 if given.ndim == 2 else 3)
    counts = [np.histogram(layers[:, place], bins=bins, range=(0, 256))[0] for place in range(layers.shape[1])]
    shares: NDArray[np.float64] = np.stack(counts) / len(layers)
    return shares


def kl_divergence(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The sum of p log(p/q) in nats; infinite where q has nothing and p has something."""
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    held = p > 0
    if (q[held] == 0).any():
        return math.inf
    return float(np.sum(p[held] * np.log(p[held] / q[held])))


def js_divergence(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The Jensen-Shannon divergence in nats: between 0 for equal shares and log 2 for shares that never meet.

    >>> round(js_divergence(np.array([1.0, 0.0]), np.array([0.0, 1.0])), 4)
    0.6931
    """
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return max(0.0, (kl_divergence(p, (p + q) / 2) + kl_divergence(q, (p + q) / 2)) / 2)


def quality(original: Pixels, hidden: Pixels) -> dict[str, float]:
    """MSE, PSNR, SSIM, and the divergences of the histograms of 32 levels, averaged over channels."""
    one, two = _pair(original, hidden)
    first, second = histogram(one), histogram(two)
    return {
        "mse": mse(one, two),
        "psnr": psnr(one, two),
        "ssim": ssim(one, two),
        "histogram_kl": float(np.mean([kl_divergence(p, q) for p, q in zip(first, second, strict=True)])),
        "histogram_js": float(np.mean([js_divergence(p, q) for p, q in zip(first, second, strict=True)])),
    }


def correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Pearson's correlation of two heat maps; 0 where one of them is flat.

    >>> correlation(np.array([[0.0, 1.0]]), np.array([[1.0, 3.0]]))
    1.0
    """
    a, b = (np.asarray(map_, dtype=np.float64).ravel() for map_ in (first, second))
    if a.shape != b.shape:
        raise VisionError("two heat maps are compared on one grid")
    a, b = a - a.mean(), b - b.mean()
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return 0.0 if length == 0 else round(float(a @ b) / length, 12)


def count_error(true: Sequence[float] | NDArray[Any], released: Sequence[float] | NDArray[Any]) -> float:
    """The mean absolute error of counts, frame by frame.

    >>> count_error([2, 3], [3.0, 1.0])
    1.5
    """
    a, b = np.asarray(true, dtype=np.float64), np.asarray(released, dtype=np.float64)
    if a.shape != b.shape or not a.size:
        raise VisionError("counts are compared frame by frame; both need as many frames")
    return float(np.mean(np.abs(a - b)))


def trajectory_error(true: Points, released: Points) -> float:
    """The mean distance of a track's places from the released ones, step by step.

    >>> trajectory_error([(0, 0), (0, 0)], [(3, 4), (0, 0)])
    2.5
    """
    a, b = np.asarray(true, dtype=np.float64), np.asarray(released, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise VisionError("tracks are compared step by step; both need as many places")
    return float(np.mean(np.linalg.norm(a - b, axis=1)))


def stay_times(presence: NDArray[Any], seconds: float = 1.0) -> NDArray[np.float64]:
    """How long each object is there: frames in which it is present, times the seconds between frames.

    >>> stay_times(np.array([[1, 1, 0], [0, 1, 0]]), seconds=2).tolist()
    [4.0, 2.0]
    """
    times: NDArray[np.float64] = np.asarray(presence, dtype=np.float64).sum(axis=1) * float(seconds)
    return times


def stay_time_error(true: NDArray[Any], released: NDArray[Any], seconds: float = 1.0) -> float:
    """How far the mean stay time is off."""
    return abs(float(np.mean(stay_times(true, seconds)) - np.mean(stay_times(released, seconds))))


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Measures of several pictures, one line each, in fixed columns."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    wide = max([len(name) for name in rows] + [6])
    lines = [" " * wide + "".join(f"{name:>14}" for name in names)]
    lines += [f"{name:<{wide}}" + "".join(f"{row.get(key, math.nan):>14.4g}" for key in names) for name, row in rows.items()]
    return "\n".join(lines)
