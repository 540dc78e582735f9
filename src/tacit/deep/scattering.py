"""Scattering features of pictures: fixed wavelets, moduli and means, that no data was used for, under a linear model.

A private linear model on good fixed features is the baseline that private deep training must beat (Tramer and Boneh 2021): features
cost nothing, and a linear model has few parameters for the noise to fall on. A picture x becomes local means of x, of |x * psi| and of
||x * psi| * psi'|, for Morlet wavelets psi at `scales` octaves and `angles` directions (Bruna and Mallat 2013).

>>> features = Scattering(size=16, scales=2, angles=4)
>>> pictures = np.zeros((3, 16, 16))
>>> features(pictures).shape                       # 1 + 2 x 4 + 4 x 4 channels at 4 x 4 places
(3, 400)

**Promise.** Features are not expansive: |S x - S y| <= |x - y| for all pictures, since the squared gains of the filters at any
frequency add up to at most 1. A channel of a constant picture other than the mean is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.parameters import count

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scattering:
    """Scattering of square pictures with `size` numbers a side, a power of two times 2^scales."""

    size: int
    scales: int = 2
    angles: int = 8
    order: int = 2

    def __post_init__(self) -> None:
        count("size", self.size)
        count("angles", self.angles)
        if count("order", self.order) > 2:
            raise ParameterError("order must be 1 or 2: what comes after has little energy")
        if self.size % 2 ** count("scales", self.scales):
            raise ParameterError(f"size must be a multiple of 2^scales = {2**self.scales}, not {self.size}; pad the pictures")

    @property
    def channels(self) -> int:
        """How many numbers there are for each place."""
        first = self.scales * self.angles
        second = self.angles**2 * self.scales * (self.scales - 1) // 2
        return 1 + first + (second if self.order == 2 else 0)

    @property
    def places(self) -> int:
        """How many places there are: one for 2^scales by 2^scales numbers."""
        side = self.size >> self.scales
        return side * side

    @cached_property
    def filters(self) -> tuple[Floats, list[tuple[int, Floats]]]:
        """The gains of the low-pass filter and of each wavelet with its octave, scaled so that their squares add up to at most 1."""
        low = _bump(self.size, 0.0, 0.0, 0.8 * 2.0 ** (self.scales - 1), 1.0, 0.0)
        wavelets = []
        for octave in range(self.scales):
            for angle in range(self.angles):
                turn = math.pi * angle / self.angles
                center, width = 3 * math.pi / 4 / 2**octave, 0.8 * 2.0**octave
                wavelet = _bump(self.size, center * math.cos(turn), center * math.sin(turn), width, 0.5, turn)
                envelope = _bump(self.size, 0.0, 0.0, width, 0.5, turn)
                # a Morlet wavelet: a bump less as much of one at zero as makes its mean vanish
                wavelets.append((octave, wavelet - envelope * wavelet[0, 0] / envelope[0, 0]))
        low = low / low[0, 0]
        # A real picture's frequencies come in pairs, of which a wavelet takes one: the gains of both count, by half each.
        energy = sum((gain**2 + _mirrored(gain) ** 2) / 2 for _, gain in wavelets)
        room = 1 - low**2
        scale = math.sqrt(float(np.min(np.where(energy > 1e-12, np.maximum(room, 0) / np.maximum(energy, 1e-12), np.inf))))
        if not scale > 0.05:  # where the low-pass takes all, wavelets are lowered by the largest sum instead
            largest = math.sqrt(float(np.max(low**2 + energy)))
            return low / largest, [(octave, gain / largest) for octave, gain in wavelets]
        return low, [(octave, gain * scale) for octave, gain in wavelets]

    def __call__(self, pictures: ArrayLike) -> Floats:
        """The features of each picture in a row: (pictures, channels x places)."""
        x = np.asarray(pictures, dtype=np.float64)
        if x.ndim != 3 or x.shape[1:] != (self.size, self.size):
            raise ParameterError(f"pictures must have the shape (number, {self.size}, {self.size}), not {x.shape}")
        x = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
        low, wavelets = self.filters
        whole = np.fft.fft2(x)
        found = [self._means(whole, low)]
        for octave, gain in wavelets:
            moduli = np.fft.fft2(np.abs(np.fft.ifft2(whole * gain)))
            found.append(self._means(moduli, low))
            if self.order == 2:
                for later, other in wavelets:
                    if later > octave:
                        found.append(self._means(np.fft.fft2(np.abs(np.fft.ifft2(moduli * other))), low))
        return np.stack(found, axis=1).reshape(len(x), -1)

    def _means(self, spectrum: NDArray[np.complex128], low: Floats) -> Floats:
        """Local means, kept at every 2^scales-th place of each side."""
        step = 2**self.scales
        # A place stands for step^2 numbers, and the norm with it: what is kept is no longer than what is averaged.
        return np.asarray(np.fft.ifft2(spectrum * low).real[:, ::step, ::step])


def _bump(size: int, right: float, down: float, width: float, slant: float, turn: float) -> Floats:
    """A Gaussian around a frequency, as gains over the grid of frequencies, repeated with the grid's period."""
    grid = 2 * math.pi * np.fft.fftfreq(size)
    total = np.zeros((size, size))
    for over in (-1, 0, 1):
        for under in (-1, 0, 1):
            y, x = np.meshgrid(grid + 2 * math.pi * under - down, grid + 2 * math.pi * over - right, indexing="ij")
            along, across = x * math.cos(turn) + y * math.sin(turn), -x * math.sin(turn) + y * math.cos(turn)
            total += np.exp(-(width**2) * (along**2 + (across / slant) ** 2) / 2)
    return total


def _mirrored(gain: Floats) -> Floats:
    """The gains at the opposite frequencies."""
    return np.roll(gain[::-1, ::-1], 1, axis=(0, 1))
