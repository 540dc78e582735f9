"""Made-up draws of the noise that a plan adds, for intervals and p-values that know of it.

They say how far published figures may be off. They are no release: nothing private is read, and the seed is public,
so the same publication is always read the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.workloads import Measured

#: Where simulated draws start: what is read from a publication follows from it.
SEED = 9_301


def empty_tables(plan: Measured) -> dict[tuple[str, ...], NDArray[np.int64]]:
    """The tables of counts that a plan measures, for no patients."""
    sizes = plan.workload.cells.sizes
    return {
        table: np.zeros(tuple(sizes[name] for name in table), dtype=np.int64) for table in plan.selection.tables
    }


def noise_of(plan: Measured, draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """The answers of the plan's first term to no patients: its noise alone, so many times."""
    shapes = [block.shape for block in plan.selection.measure(empty_tables(plan))]
    law: Any = rng.laplace if plan.law == "laplace" else rng.normal
    for _ in range(draws):
        blocks = [np.rint(law(0.0, float(scale), shape)) for scale, shape in zip(plan.noise.scales, shapes, strict=True)]
        yield plan.selection.answers(plan.workload, plan.selection.released(blocks), plan.law)[0].values
