"""Private deep learning (chapter 7): its acceptance numbers A15 to A20, and its errata, each with the printed form failing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.accounting import Gaussian, Poisson, Repeated, Sampled, account
from tacit.accounting.theorems import conversions, subsampled_renyi
from tacit.audit import OperatingPoint
from tacit.audit.models import group_epsilon
from tacit.deep import FullBatch, PoissonBatches, make_private
from tacit.deep.pate import LaplaceVotes
from tacit.deep.pate_cost import dependent_epsilon, disagreement, fixed_moment, independent_epsilon, moment
from tacit.deep.private import ROUNDING
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode

# A15, A16: the moments accountant, whose alpha(lambda) is lambda times the Rényi divergence of order lambda + 1


def alpha(lam: int, rate: float, sigma: float) -> float:
    """log of the binomial sum for an integer order, in exact binomials: an oracle of its own."""
    order = lam + 1
    terms = [math.comb(order, k) * (1 - rate) ** (order - k) * rate**k * math.exp(k * (k - 1) / (2 * sigma**2)) for k in range(order + 1)]
    return math.log(math.fsum(terms))


@pytest.mark.parametrize(("lam", "printed"), [(1, 6.44943e-6), (8, 2.33245e-4), (32, 3.47604e-3)])
def test_a15_moments(lam: int, printed: float) -> None:
    ours = lam * float(subsampled_renyi.gaussian([lam + 1.0], 0.01, 4.0)[0])
    assert ours == pytest.approx(printed, rel=1e-5)
    assert ours == pytest.approx(alpha(lam, 0.01, 4.0), rel=1e-9)
    assert ours <= 0.01**2 * lam * (lam + 1) / ((1 - 0.01) * 16), "the book's leading term is larger"


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "classical", "tight"),
    [
        (0.01, 4.0, 10_000, 1.2586, 1.0355),
        (0.01, 4.0, 40_000, 2.5759, 2.2129),
        (256 / 60_000, 1.1, 14_063, 3.0092, 2.5971),
        (0.01, 1.1, 6000, 4.8048, 4.2641),
    ],
)
def test_a16_dpsgd(rate: float, sigma: float, steps: int, classical: float, tight: float) -> None:
    lams = np.arange(1, 33)  # the best orders are below 20
    curve = steps * np.array([alpha(int(lam), rate, sigma) for lam in lams]) / lams
    assert round(conversions.rdp_epsilon_basic(lams + 1.0, curve, 1e-5), 4) == classical
    assert round(conversions.rdp_epsilon(lams + 1.0, curve, 1e-5), 4) == tight
    exact = account(Repeated(Sampled(Poisson(rate), Gaussian(sigma)), steps)).epsilon(1e-5)
    assert exact.upper < tight, "the certified figure is below both"
    # (7.9) as printed takes the minimum over the numerator alone, then divides: a figure that belongs to no order
    numerator = min(lams * curve - math.log(1e-5))
    assert numerator / lams[-1] < exact.lower


# A17: one noise vector for the sum, and a public divisor


class Bank(nn.Module):
    """A row's gradient is the row, of length one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1, bias=False).double()

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.layer(inputs)
        return out


def released(records: int, width: int, divisor: int, per_example: bool = False, empty: bool = False) -> Tensor:
    """A step's released gradient times the divisor, on records whose gradients are zero: the noise in the sum."""
    model = Bank(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    sampler = PoissonBatches(1, 10**9) if empty else FullBatch(divisor)
    data = torch.zeros(records, width, dtype=torch.float64)
    private = make_private(model, optimizer, data, noise_multiplier=3.0, clip=0.5, sampler=sampler, steps=1, loss_reduction="sum")
    if per_example:
        add = private._noise.add

        def for_each(sums: Tensor, noise: NoisySums, times: float) -> Tensor:
            return torch.stack([add(sums.clone(), noise, times) for _ in range(records)]).sum(dim=0)

        private._noise.add = for_each  # type: ignore[method-assign]
    with test_mode(17):
        for (inputs,) in private.loader:
            model(inputs).sum().backward()
            optimizer.step()
    assert private.steps == 1 and model.layer.weight.grad is not None
    return model.layer.weight.grad[0] * float(sampler.divisor)


def test_a17_the_noise_of_a_step_does_not_know_the_batch() -> None:
    width, variance = 20_000, (3.0 * 0.5 * ROUNDING) ** 2
    spread = 6 * math.sqrt(2 / width)
    for records in (1, 7, 64):
        assert float(released(records, width, divisor=64).var()) == pytest.approx(variance, rel=spread)
    assert float(released(5, width, divisor=1, empty=True).var()) == pytest.approx(variance, rel=spread), "an empty batch is noised too"
    printed = float(released(7, width, divisor=64, per_example=True).var())
    assert printed == pytest.approx(7 * variance, rel=spread), "(7.6) as printed: noise inside the sum"


def test_a17_the_divisor_is_the_expected_size() -> None:
    for records in (1, 9):
        model = Bank(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        rows = torch.eye(3, dtype=torch.float64)[:1].repeat(records, 1)
        private = make_private(
            model, optimizer, rows, noise_multiplier=1e-9, clip=1.0, sampler=FullBatch(20), steps=1, loss_reduction="sum"
        )
        for (inputs,) in private.loader:
            model(inputs).sum().backward()
            optimizer.step()
        assert model.layer.weight.grad is not None
        assert float(model.layer.weight.grad[0, 0]) == pytest.approx(records / 20, rel=1e-6)


# A18, A19: PATE

NINE = [0] * 9


@pytest.mark.parametrize(
    ("votes", "q", "hundred", "thousand"),
    [
        ([250, *NINE], 1.21582e-4, 0.2634, 0.4525),
        ([200, 50, *NINE[1:]], 2.40317e-3, 0.5556, 1.5564),
        ([180, 40, 30, *NINE[2:]], 5.74095e-3, 0.7650, 2.6504),
        ([130, 120, *NINE[1:]], 0.40464, 5.3026, 20.7565),
    ],
    ids=["all agree", "200", "180", "130"],
)
def test_a18_the_cost_on_votes(votes: list[int], q: float, hundred: float, thousand: float) -> None:
    assert disagreement(votes, 0.1) == pytest.approx(q, rel=1e-5)
    assert round(dependent_epsilon([votes] * 100, 0.1, 1e-5), 4) == hundred
    assert round(dependent_epsilon([votes] * 1000, 0.1, 1e-5), 4) == thousand


def test_a18_the_cost_whatever_the_votes() -> None:
    assert [round(independent_epsilon(n, 0.1, 1e-5), 4) for n in (100, 1000)] == [5.3026, 20.7565]
    assert independent_epsilon(1, 0.1, 1e-5) == 0.1, "the moments alone give .1579 for one question; pure composition is better"
    lone = min((fixed_moment(lam, 0.1) - math.log(1e-5)) / lam for lam in range(1, 200))
    assert round(lone, 4) == 0.1579
    for n in (1, 100, 1000):
        assert account(LaplaceVotes(0.1).event(n)).epsilon(1e-5).upper <= independent_epsilon(n, 0.1, 1e-5)
    # (7.12) as printed, with 2 lambda gamma: valid, and looser, for the scale 2/gamma
    assert fixed_moment(100, 0.1) == pytest.approx(100 * 0.1) and fixed_moment(100, 0.1) < 2 * 100 * 0.1


@pytest.mark.parametrize(("lam", "printed"), [(1, 0.00210233), (5, 0.01169392), (10, 0.02738325), (20, 0.08172856)])
def test_a18_moments(lam: int, printed: float) -> None:
    assert round(moment(lam, 0.1, 0.01), 8) == printed


def test_a19_disagreement() -> None:
    assert disagreement([125, 125], 0.1) == pytest.approx(0.5, rel=1e-9)
    assert round(disagreement([150, 100], 0.1), 7) == 0.0923456
    assert round(disagreement([175, 75], 0.1), 7) == 0.0117914
    limit = 1 / (math.exp(0.1) + 1)
    assert round(limit, 5) == 0.47502
    for q in (limit, 0.5, 0.95, 1.0, 1.7, 4.5):
        for lam in (1, 2, 7, 30):
            assert moment(lam, 0.1, q) == fixed_moment(lam, 0.1), "no NaN, no dip"


def printed_moment(lam: int, gamma: float, q: float) -> float:
    """(7.10) without its condition."""
    return math.log((1 - q) * ((1 - q) / (1 - math.exp(gamma) * q)) ** lam + q * math.exp(gamma * lam))


def test_a19_without_its_condition_the_bound_is_false() -> None:
    """Randomised response is gamma-DP and errs with probability .269, so q = 1/2 bounds that; (7.10) is then below the exact moment."""
    gamma, lam, q = 1.0, 2, 0.5
    right = math.exp(gamma) / (1 + math.exp(gamma))
    exact = math.log(right * math.exp(gamma * lam) + (1 - right) * math.exp(-gamma * lam))
    assert 1 - right < q
    assert printed_moment(lam, gamma, q) < exact <= moment(lam, gamma, q)
    with pytest.raises(ValueError):
        printed_moment(1, 0.1, 0.91)  # an odd order, q past e^-gamma: the logarithm of a negative number


# A20: what k poisoned records can show


@pytest.mark.parametrize(("k", "epsilon", "success"), [(1, 1.0, 0.7311), (2, 1.0, 0.8808), (8, 1.0, 0.9997), (1, math.log(3), 0.75)])
def test_a20_poisoning(k: int, epsilon: float, success: float) -> None:
    bound = math.exp(k * epsilon) / (1 + math.exp(k * epsilon))
    assert round(bound, 4) == success and bound < 1
    point = OperatingPoint(1 - bound, bound, 1.0)
    assert group_epsilon(point, records=k) == pytest.approx(epsilon, rel=1e-9)
    if k > 1:
        assert math.exp(k * epsilon) / (1 + math.exp(epsilon)) > 1, "as printed it is no probability"
