"""Gaussian draws against the normal law: counts in cells, moments, tails, independence of calls; the lattice form against the exact one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from tacit.deep.noise import CHUNK, TAIL, Stream, _places, add_normal, on_lattice, standard_normal
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode, watch

N = 2_000_000
EDGES = np.array([-4, -3.2, -3, -2.8, -2, -1, -0.5, 0, 0.5, 1, 2, 2.8, 3, 3.2, 4])


def chi_square(z: torch.Tensor) -> float:
    """The statistic of cell counts against the normal law; the cells straddle the border of the re-drawn tail at 3.097."""
    counts = np.diff(np.searchsorted(np.sort(z.double().numpy()), EDGES), prepend=0, append=0)
    counts[-1] = len(z) - counts[:-1].sum()
    expected = len(z) * np.diff(ndtr(EDGES), prepend=0, append=1)
    return float(((counts - expected) ** 2 / expected)[expected > 0].sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cells_have_the_normal_probabilities(dtype: torch.dtype) -> None:
    """16 cells: the statistic exceeds 60 with probability below 3e-7; a tail that is not drawn again is seen at once."""
    with test_mode(5):
        z = standard_normal(N, dtype)
    assert z.dtype == dtype and chi_square(z) < 60
    assert chi_square(z * 1.01) > 60, "one percent more noise must be seen"
    assert chi_square(torch.where(z.abs() > 3.2, z.sign() * 3.1, z)) > 60, "a tail cut off must be seen"


def test_moments() -> None:
    """Each within five standard deviations, fixed seed."""
    with test_mode(6):
        z = standard_normal(N).double()
    assert abs(z.mean()) < 5 / math.sqrt(N)
    assert abs(z.var() - 1) < 5 * math.sqrt(2 / N)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / N)
    assert abs((z[:-1] * z[1:]).mean()) < 5 / math.sqrt(N)


def test_the_tail_is_smooth_beyond_its_border() -> None:
    with test_mode(7):
        z = standard_normal(N, torch.float64).abs()
    border = float(-torch.special.ndtri(torch.tensor(TAIL / 2, dtype=torch.float64)))
    outer = z[z > border]
    assert abs(len(outer) - N * TAIL) < 5 * math.sqrt(N * TAIL)
    assert len(outer.unique()) == len(outer)
    share = float((outer > 3.5).double().mean())
    truth = 2 * ndtr(-3.5) / TAIL
    assert abs(share - truth) < 5 * math.sqrt(truth / len(outer))


def test_outer_places_are_independent_coins() -> None:
    """Gaps are geometric, so numbers, first places and pairs are those of coins; gaps of one rate for another are seen."""
    with test_mode(8):
        places = _places(N, Stream())
    assert (np.diff(places) >= 1).all() and places[0] >= 0 and places[-1] < N
    assert abs(len(places) - N * TAIL) < 5 * math.sqrt(N * TAIL)
    together = int((np.diff(places) == 1).sum())
    assert abs(together - N * TAIL**2) < 5 * math.sqrt(N) * TAIL
    share = float((np.diff(places) > 1 / TAIL).mean())
    assert abs(share - (1 - TAIL) ** (1 / TAIL)) < 5 * math.sqrt(0.25 / len(places))
    with test_mode(9):
        small = [len(_places(3, Stream())) for _ in range(2000)]
    assert max(small) <= 3 and sum(small) < 6000 * TAIL + 5 * math.sqrt(6000 * TAIL)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_is_added_in_place_with_the_normal_law(dtype: torch.dtype) -> None:
    """Against the same statistic as above; a piece that got no noise, or the noise of another, is seen."""
    values = torch.full((N,), 8.0, dtype=dtype)
    with test_mode(11):
        assert add_normal(values, scale=3.0, times=0.25) is values
    z = (values.double() - 2) / 3
    assert chi_square(z) < 60
    assert chi_square(torch.cat([z[: N - CHUNK], z[:CHUNK] * 0])) > 60
    if CHUNK * 2 < N:
        assert abs((z[:CHUNK] * z[CHUNK : 2 * CHUNK]).mean()) < 5 / math.sqrt(CHUNK)
    first, second = (add_normal(torch.zeros(1000), 1.0) for _ in range(2))
    assert not (first == second).any()


@pytest.mark.parametrize("count", [0, 1, 5, CHUNK - 1, CHUNK, CHUNK + 1])
def test_noise_is_added_to_vectors_of_any_length(count: int) -> None:
    values = add_normal(torch.zeros(count), 1.0)
    assert values.shape == (count,) and bool(values.isfinite().all()) and bool((values != 0).all() or count > 1000)


def test_calls_share_nothing_and_test_mode_repeats() -> None:
    assert not torch.equal(standard_normal(100), standard_normal(100))
    with test_mode(1):
        first = standard_normal(1000)
    with test_mode(1), watch() as seen:
        assert torch.equal(standard_normal(1000), first)
    assert not seen.private


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100_001])
def test_any_length(count: int) -> None:
    assert len(Stream().take(count)) == count
    assert standard_normal(count).shape == (count,)


def test_half_precision_is_made_from_single() -> None:
    assert standard_normal(10, torch.bfloat16).dtype == torch.bfloat16


def test_lattice_noise_is_on_the_lattice_and_has_the_right_spread() -> None:
    granule = 2.0**-10
    with test_mode(2):
        out = on_lattice(torch.full((200_000,), 0.3), NoisySums.of_scale("gaussian", 2 / granule, granularity=granule))
    assert torch.equal(out / granule, (out / granule).round())
    centre = float(Fraction(round(0.3 / granule)) * Fraction(granule))
    assert abs(out.mean() - centre) < 5 * 2 / math.sqrt(200_000)
    assert abs(out.var() - 4) < 5 * 4 * math.sqrt(2 / 200_000)
