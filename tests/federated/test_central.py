"""The lattice of central trust: exact norms for every float there is, and noise of the stated size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.federated.apps import plan

from tacit.federated import central
from tacit.federated.sums import CentralSum, mean_of

ODD = [0.0, -0.0, 5e-324, 1e-310, 1e-300, 1.0, -1.0, 1e154, 1e308, -1e308, math.inf, -math.inf, math.nan]


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(ODD)),
       st.sampled_from([1e-300, 1e-9, 0.3, 1.0, 7.0, 1e12, 1e300]))  # fmt: skip
def test_what_leaves_has_a_norm_of_at_most_the_clip_exactly(update: np.ndarray, clip: float) -> None:
    with np.errstate(all="ignore"):
        sent = central.to_lattice(update, clip)
    assert sent.dtype == np.int32 and sum(int(v) ** 2 for v in sent) <= central.CLIP**2


@given(arrays(np.int32, st.integers(1, 9000), elements=st.integers(-(2**30), 2**30)))
def test_the_norm_is_compared_exactly(vector: np.ndarray) -> None:
    assert central.exact_norm_fits(vector) == (sum(int(v) ** 2 for v in vector) <= central.CLIP**2)


def test_small_updates_pass_unchanged_and_large_ones_keep_their_direction() -> None:
    small = np.array([0.25, -0.5])
    assert np.allclose(central.to_lattice(small, 1.0) / central.CLIP, small, atol=1e-7)
    large = np.array([3e200, 4e200])
    assert np.allclose(central.to_lattice(large, 5.0) / central.CLIP, [0.6, 0.8], atol=1e-6)
    assert not central.to_lattice(np.full(3, np.nan), 1.0).any()


def test_the_noise_of_the_mean_is_z_c_over_n() -> None:
    """A22: the deviation of the mean is z c / n, and doubles with c at equal price."""
    for clip in (1.0, 2.0):
        made = plan(size=20_000, clients=50, clip=clip, noise_multiplier=1.5)
        found = mean_of(made, CentralSum(made, clip).noisy(), clip).update
        # 20,000 draws: the deviation of an estimated deviation is 1/200 of it; five of these
        assert found.std() == pytest.approx(1.5 * clip / 50, rel=0.025)
        assert made.deviation() == pytest.approx(1.5 * clip / 50)


@pytest.mark.parametrize("sent", [b"", b"x", b"\0" * 15, b"\0" * 17, np.full(4, 2**30, dtype="<i4").tobytes(), None, "text"], ids=repr)
def test_a_malformed_vector_is_left_out(sent: object) -> None:
    made = plan()
    total = CentralSum(made, 1.0)
    assert not total.add(sent)  # type: ignore[arg-type]
    assert not total.total.any()
