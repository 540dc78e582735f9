"""Made-up draws of the noise that a plan adds, for intervals and p-values that know of it.

They say how far published figures may be off. They are no release: nothing private is read, and the seed is public,
so the same publication is always read the same way.
"""

from __future__ import annotations

import math
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


def noise_of(plan: Measured, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The answers of the plan's first term to no patients: its noise alone, so many times; the first axis counts draws.

    Least squares are linear in the noise, so where there are fewer sums than draws, the answer to each sum is found once.
    """
    shapes = [block.shape for block in plan.selection.measure(empty_tables(plan))]
    law: Any = rng.laplace if plan.law == "laplace" else rng.normal
    blocks = [np.rint(law(0.0, float(scale), (draws, *shape))) / plan.parts for scale, shape in zip(plan.noise.scales, shapes, strict=True)]

    def answered(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        return plan.selection.answers(plan.workload, plan.selection.released(parts), plan.law)[0].values

    if sum(math.prod(shape) for shape in shapes) >= draws:
        return np.array([answered([block[i] for block in blocks]) for i in range(draws)])
    found = 0.0
    for place, (block, shape) in enumerate(zip(blocks, shapes, strict=True)):
        for cell in np.ndindex(*shape):
            parts = [np.zeros(other) for other in shapes]
            parts[place][cell] = 1.0
            found = found + np.multiply.outer(block[(slice(None), *cell)], answered(parts))
    return np.asarray(found)
