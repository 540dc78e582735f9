"""The full-domain baseline: exact without noise, worse with more cells, refused where the table is too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.accounting import Guarantee, ParameterError
from tacit.noise import test_mode as seeded
from tacit.synthesis.histogram import Histogram
from tacit.synthesis.measure import Measuring


def test_all_dependence_is_kept(run: Any) -> None:
    ran = run(Histogram(), epsilon=50, rows=20000)
    assert ran.total_variation((0, 1, 2, 3, 4)) < 0.01
    assert ran.spent_within_budget()


def test_the_error_grows_with_the_cells() -> None:
    found = []
    for cells in (50, 400, 3200):
        counts = np.zeros(cells, dtype=np.int64)
        counts[:10] = 100
        with seeded(1):
            models = [
                Histogram().fit(Measuring((cells,), lambda _, counts=counts: counts, Guarantee(rho=0.005)))
                for _ in range(10)
            ]
        found.append(np.mean([np.abs(model.nodes[0] - counts / 1000).sum() / 2 for model in models]))
    # ten runs each: means deviate by about .02
    assert found[0] + 0.05 < found[1] < found[2] - 0.05


def test_a_large_table_is_refused(run: Any) -> None:
    with pytest.raises(ParameterError, match="720 cells, above the cap of 700"):
        run(Histogram(cap=700))
