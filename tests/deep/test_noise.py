"""The noise of a step: its law, its price, its lattice; and the attacks on floats and on half precision that it must withstand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

from tacit.accounting import ParameterError
from tacit.deep.noise import SPARE, STEPS, Stream, add_noise, step_noise
from tacit.deep.private import MOST, ROUNDING, Independent, make_private
from tacit.deep.samplers import FullBatch
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode, watch

# The law


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_its_deviation_and_normal_tails(dtype: torch.dtype) -> None:
    count, noise = 400_000, step_noise(2.0, 1.5, 0.0)
    with test_mode(3):
        z = add_noise(torch.full((count,), 0.7, dtype=dtype), noise, times=0.25).double().numpy() * 4 - 0.7
    z /= noise.deviation()
    assert noise.deviation() == pytest.approx(3.0, rel=1e-9)
    for level in (0.0, 1.0, 2.0, 3.0, 4.0):
        for side in (z, -z):
            share = norm.sf(level)
            # five deviations: a right sampler fails one of ten with probability 6e-6, and the seed is fixed
            assert abs((side > level).mean() - share) < 5 * math.sqrt(share / count) + 1 / STEPS * norm.pdf(level)
    assert abs(np.mean(z**4) - 3) < 5 * math.sqrt(96 / count)


def test_calls_differ_and_seeds_repeat() -> None:
    noise = step_noise(1.0, 1.0, 0.0)
    assert not torch.equal(add_noise(torch.zeros(100), noise), add_noise(torch.zeros(100), noise))
    with watch() as seen, test_mode(3):
        first = add_noise(torch.zeros(1000), noise)
    assert not seen.private
    with test_mode(3):
        assert torch.equal(add_noise(torch.zeros(1000), noise), first)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100_001])
def test_any_number_of_bytes_and_of_parameters(count: int) -> None:
    assert len(Stream().take(count)) == count
    assert add_noise(torch.zeros(count), step_noise(1.0, 1.0, 0.0)).shape == (count,)


def test_the_cipher_is_the_standard_one() -> None:
    """AES-256 in counter mode, against the library's own cipher under the same key."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    from tacit.noise import words

    with test_mode(8):
        stream = Stream()
    with test_mode(8):
        key = words(4).tobytes()
    expected = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(3 << 20))
    assert bytes(stream.take(5)) + bytes(stream.take((3 << 20) - 5)) == expected
    assert SPARE == 16


# The price


@pytest.mark.parametrize("multiplier", [1e-3, 0.7, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("sensitivity", [1e-30, 0.3, 1.0, 1e30])
@pytest.mark.parametrize("rounding", [0.0, 2.0**-31 * 3000, 2.0**-22])
def test_the_noise_is_never_less_than_was_priced(multiplier: float, sensitivity: float, rounding: float) -> None:
    noise = step_noise(multiplier, sensitivity, rounding)
    sigma = noise.scales[0] * noise.granularities[0]
    assert sigma >= Fraction(multiplier) * (Fraction(sensitivity) + Fraction(rounding) * sigma)
    assert noise.multiplier >= multiplier and float(sigma) <= multiplier * sensitivity * (1 + 2 * multiplier * rounding + 1e-12)


@pytest.mark.parametrize(("multiplier", "sensitivity", "rounding"), [(1e9, 1.0, 1e-6), (1.0, 1e-320, 0.0), (math.nan, 1.0, 0.0)])
def test_what_floats_cannot_price_is_refused(multiplier: float, sensitivity: float, rounding: float) -> None:
    with pytest.raises(ParameterError):
        step_noise(multiplier, sensitivity, rounding)


# Attacks


class Seen(Independent):
    """Keeps what the noise is added to; `cast` is the mutant that puts the parameter's type on first."""

    def __init__(self, cast: torch.dtype | None = None) -> None:
        self.cast, self.sums = cast, torch.zeros(0)

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        self.sums = sums.clone() if self.cast is None else sums.to(self.cast).to(sums.dtype)
        return super().add(sums, noise, times)


def one_step(model: nn.Module, data: Any, noise: Any = None, multiplier: float = 1.0) -> list[Tensor]:
    """The released gradients of one step in which every record's gradient is its input, of norm one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    plan: dict[str, Any] = {"noise_multiplier": multiplier, "clip": 1.0, "sampler": FullBatch(len(data)), "steps": 1, "noise": noise}
    private = make_private(model, optimizer, (data,), loss_reduction="sum", **plan)
    for (x,) in private.loader:
        model(x).float().sum().backward()
        optimizer.step()
    private.detach()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def moved(dtype: torch.dtype, records: int, cast: torch.dtype | None = None) -> float:
    """How far one more record moves the sums that get noise."""
    seen = []
    for n in (records, records + 1):
        noise = Seen(cast)
        one_step(nn.Linear(1, 1, bias=False).to(dtype), torch.ones(n, 1, dtype=dtype), noise)
        seen.append(noise.sums.double())
    return float(torch.linalg.vector_norm(seen[1] - seen[0]))


def test_one_record_moves_a_sum_in_half_precision_by_one_clip() -> None:
    """The attack: 1028 and 1029 clips lie 8 apart in bfloat16, at a price for 1."""
    assert moved(torch.bfloat16, 1028) <= ROUNDING
    assert moved(torch.bfloat16, 1028, cast=torch.bfloat16) > 7, "the mutant"


def test_a_sum_in_half_precision_does_not_overflow() -> None:
    """The attack: 70,000 clips are infinite in float16, 65,000 are not."""
    assert moved(torch.float16, 70_000) <= ROUNDING
    assert not moved(torch.float16, 70_000, cast=torch.float16) <= ROUNDING, "the mutant"


class Mixed(nn.Module):
    """A first layer in half precision, and a second in single."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32, bias=False).to(torch.bfloat16), nn.Linear(32, 1, bias=False).double()
        with torch.no_grad():
            self.first.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.to(torch.bfloat16)).double()
        return self.second(hidden + x.double())


def coarse(values: Tensor) -> float:
    """The share of numbers that have no more digits than half precision holds."""
    return float((values == values.to(torch.bfloat16).float()).float().mean())


def test_noise_has_as_many_digits_in_every_layer() -> None:
    """The attack: noise in the first layer's bfloat16 leaves the low digits of the second layer's exact sum bare."""
    model, data = Mixed(), torch.randn(50, 32) / 10
    with test_mode(1):
        first, second = one_step(model, data)
    assert first.dtype == torch.bfloat16 and second.dtype == torch.float64
    granule = float(step_noise(1.0, ROUNDING, Independent().rounding(32 * 33, MOST * 50)).granularities[0]) / 50
    multiples = second.double() / granule
    assert float((multiples - multiples.round()).abs().max()) < 0.02
    assert coarse(multiples.float()) < 0.5
    with test_mode(1):
        mutant = torch.randn(32).to(torch.bfloat16).float()
    assert coarse(mutant) == 1, "the mutant: these digits of a sum plus such noise are the sum's own"


def float_noise(count: int, scale: float) -> Tensor:
    """Normal numbers as floats make them: the quantile of a uniform number of 32 bits, in single precision."""
    bits = torch.randint(-(2**31), 2**31, (count,)).to(torch.int32).float()
    return bits.mul_(2.0**-31 * (1 - 2.0**-9)).erfinv_().mul_(math.sqrt(2) * scale)


def out_of_reach(released: Tensor, scale: float) -> bool:
    """The attack on floats: too many numbers are none that noise alone can be."""
    near = torch.erf(released.double() / (math.sqrt(2) * scale)).float().view(torch.int32)
    found = torch.zeros(len(released), dtype=torch.bool)
    for step in range(-6, 7):
        found |= (near + step).view(torch.float32).erfinv_().mul_(math.sqrt(2) * scale) == released
    return float(found.float().mean()) < 0.95


@pytest.mark.parametrize("mutant", [False, True], ids=["lattice", "floats"])
def test_no_float_is_out_of_reach(mutant: bool) -> None:
    """One step, 1,000 coordinates, epsilon about 0.06 at 1e-5: is the record, which adds 1/32 to each, in the data?"""

    class Floats(Independent):
        def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
            return float_noise(len(sums), noise.deviation()) + sums.float()

    scale = step_noise(60.0, ROUNDING, Independent().rounding(1000, MOST / 60)).deviation()
    record = torch.full((1, 1000), 1000**-0.5)
    absent, present = ([], [])  # type: tuple[list[bool], list[bool]]
    with test_mode(4), torch.random.fork_rng():
        torch.manual_seed(4)
        for _ in range(8):
            for data, said in ((torch.zeros(1, 1000), absent), (record, present)):
                (released,) = one_step(nn.Linear(1000, 1, bias=False), data, Floats() if mutant else None, multiplier=60.0)
                said.append(out_of_reach(released.reshape(-1), scale))
    rates = np.mean(present), np.mean(absent)  # true positives and false ones
    assert rates == ((1.0, 0.0) if mutant else (1.0, 1.0)), "the attack says the same of both"


class Cut(Independent):
    """A mutant: sums beyond 2^20 deviations are cut off without a word."""

    def add(self, sums: Tensor, noise: NoisySums, times: float) -> Tensor:
        return super().add(sums.clamp(-(2.0**20) * noise.deviation(), 2.0**20 * noise.deviation()), noise, times)


@pytest.mark.parametrize("multiplier", [1e-3, 1e-9, 1e-14, 1e-200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_any_number_of_deviations_come_out_whole(multiplier: float, dtype: torch.dtype) -> None:
    """Twelve records of gradient one, with noise that is nothing beside them."""
    data, near = torch.ones(12, 1, dtype=dtype), 10 * multiplier + (1e-5 if dtype == torch.float32 else 1e-9)
    (whole,) = one_step(nn.Linear(1, 1, bias=False).to(dtype), data, multiplier=multiplier)
    assert abs(float(whole) - 1) < near
    if multiplier < 1e-8:
        (cut,) = one_step(nn.Linear(1, 1, bias=False).to(dtype), data, Cut(), multiplier=multiplier)
        assert abs(float(cut) - 1) > near, "the mutant"


def test_a_batch_of_far_more_records_than_were_declared_is_cut_off() -> None:
    """One record is declared and 3,000 came: the sum is that of 1,024, and one record more changes nothing."""
    found = []
    for count in (3000, 3001):
        model = nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        private = make_private(
            model, optimizer, (torch.ones(count, 1),), noise_multiplier=1e-6, clip=1.0, sampler=FullBatch(1), steps=1, loss_reduction="sum"
        )
        for (x,) in private.loader:
            model(x).sum().backward()
            optimizer.step()
        assert model.weight.grad is not None
        found.append(float(model.weight.grad))
    assert found == pytest.approx([MOST * ROUNDING] * 2, rel=1e-6)


def test_all_that_is_released_are_multiples_of_the_granule() -> None:
    """Each float of float32 that can come out is the nearest one to a multiple, whatever the sum is."""
    noise = step_noise(1.0, 1.0, 0.0)
    granule = float(noise.granularities[0])
    for start in (0.0, 0.1, -1 / 3, 1e4 + 0.7, 1e-20):
        released = add_noise(torch.full((5000,), start), noise).double().numpy()
        back = np.rint(released / granule) * granule
        assert (released == back.astype(np.float32).astype(np.float64)).all()
