"""One epoch as a pair: on its side of the truth, in both directions, and of the protocol of pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting.engines import lattice
from tacit.accounting.engines.allocation import epoch_laws
from tacit.accounting.engines.stop_loss import delta_once
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio


@pytest.mark.parametrize("rounding", ["up", "down"])
def test_the_pair_of_one_epoch_is_on_its_side_of_the_truth(rounding: str) -> None:
    pair = epoch_laws(GaussianRatio(1.0), 50, 1e-3, 1e-15)[rounding == "up"]
    for direction, sign in ((pair, 1), (pair.reverse(), -1)):
        assert direction.p.sum() + direction.infinite == pytest.approx(1, abs=1e-9)
        composition = lattice.compose([(direction.lattice() or lattice.Lattice(1.0, 0.0, 0, np.ones(1)), 1)])
        for epsilon in (-0.3, 0.0, 0.1, 0.33, 0.5, 1.0):
            if epsilon >= 0:
                lower, upper = delta_once(GaussianRatio(1.0), 50, epsilon, sign, 1e-7)
            else:
                other = delta_once(GaussianRatio(1.0), 50, -epsilon, -sign, 1e-7)
                lower, upper = (1 - math.exp(epsilon) + math.exp(epsilon) * x for x in other)
            found = composition.delta(epsilon)
            if rounding == "up":
                assert found.upper >= lower
            else:
                assert found.lower <= upper
            assert found.upper == pytest.approx(upper, rel=2e-3)


def test_the_pair_knows_the_protocol() -> None:
    pair = epoch_laws(GaussianRatio(1.0), 10, 5e-3, 1e-12)[1].reverse()
    losses, masses = pair.atoms()
    assert pair.support() == (losses[0], losses[-1])
    assert pair.kappa(0.0) == pytest.approx(math.log1p(-pair.infinite), abs=1e-9)
    assert pair.kappa(1.0) == pytest.approx(math.log(float(masses @ np.exp(losses))), rel=1e-9)
