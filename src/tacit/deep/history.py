"""What may be watched while a private model trains: only what the released gradients already tell.

The true signal in a step is private. But a released gradient is signal plus noise of known size, so its squared length less that of the
noise estimates the signal, as post-processing: free. When over many steps the estimate cannot be told from zero, the noise drowns the
update, and the run is a random walk that costs privacy: the history says so once, aloud.

>>> history = History(window=4)
>>> for step in range(1, 5):
...     history.record(step, [torch.full((100,), 0.5)], noise_scale=0.1, clip=1.0)
>>> history.drowned, round(history.signal_to_noise[-1], 2)
(False, 4.9)

Training loss and accuracy on private data are not here: printing them is a release of its own, without a price. Note what was measured on
public data with `note`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

BLOCK = 2**20  # numbers whose squares are added in single precision: a longer sum would round away what is looked for
DETECTED = 3.0  # standard deviations by which the released energy must exceed the noise's for the signal to be seen


class NoiseDrownsSignal(UserWarning):
    """Over a whole window of steps the released gradients cannot be told from pure noise."""


def _energy(values: Tensor) -> float:
    """The sum of the squares of a vector."""
    if values.numel() <= BLOCK:
        return float(torch.dot(values, values))
    return math.fsum(float(torch.dot(piece, piece)) for piece in torch.split(values, BLOCK))


class History:
    """The steps of a run, as its released gradients tell them."""

    def __init__(self, window: int = 50) -> None:
        self.window = window
        self.steps: list[int] = []
        self.signal_to_noise: list[float] = []
        self.clip: list[float] = []
        self.clipped: list[float | None] = []
        self.notes: list[tuple[int, str, float]] = []
        self.drowned = False
        self._excess: list[float] = []

    def record(self, step: int, released: Sequence[Tensor | None], noise_scale: float, clip: float, clipped: float | None = None) -> None:
        """One step: its released gradient, the noise in each coordinate (NaN: unknown), the threshold, the noisy clipped share if paid."""
        gradients = [gradient for gradient in released if gradient is not None]
        count = sum(gradient.numel() for gradient in gradients)
        self.steps.append(step)
        self.clip.append(clip)
        self.clipped.append(clipped)
        if not noise_scale > 0 or count == 0:  # noise that is not the same in every step, or nothing to see
            self.signal_to_noise.append(math.nan)
            return
        relative = sum(_energy(gradient.detach().reshape(-1)) for gradient in gradients) / noise_scale / noise_scale
        self.signal_to_noise.append(math.sqrt(max(0.0, relative - count) / count))
        self._excess.append((relative - count) / math.sqrt(2 * count))  # standard normal, nearly, if there is nothing but noise
        self._watch()

    def _watch(self) -> None:
        if self.drowned or len(self._excess) < self.window:
            return
        recent = self._excess[-self.window :]
        if sum(recent) / math.sqrt(len(recent)) < DETECTED:
            self.drowned = True
            warnings.warn(
                f"over the last {self.window} steps the noise drowns the update: the released gradients look like pure noise. Use a larger "
                "batch, fewer steps, a smaller model, or more epsilon",
                NoiseDrownsSignal,
                stacklevel=4,
            )

    def note(self, step: int, name: str, value: float) -> None:
        """Keep a figure that was measured on public data, to be drawn with the rest.

        >>> history = History()
        >>> history.note(10, "public accuracy", 0.9)
        """
        self.notes.append((step, name, float(value)))

    def plot(self, epsilon: Sequence[float] | None = None) -> Any:
        """A figure of signal to noise, clipping, what was noted, and, if given for each step, epsilon."""
        from matplotlib.figure import Figure

        names = list(dict.fromkeys(name for _, name, _ in self.notes))
        rows = 2 + bool(names) + (epsilon is not None)
        figure = Figure(figsize=(7, 2.1 * rows), layout="constrained")
        axes = figure.subplots(rows, 1, sharex=True)
        axes[0].plot(self.steps, self.signal_to_noise, color="#1b6ca8", lw=1)
        axes[0].set_ylabel("signal / noise")
        axes[0].set_title("Estimated from the released gradients alone", fontsize=9, loc="left")
        axes[1].plot(self.steps, self.clip, color="#444444", lw=1, label="threshold")
        axes[1].set_ylabel("clipping")
        if any(share is not None for share in self.clipped):
            twin = axes[1].twinx()
            twin.plot(self.steps, [math.nan if share is None else share for share in self.clipped], color="#c0562f", lw=1)
            twin.set_ylabel("clipped share (noisy)", color="#c0562f")
            twin.set_ylim(0, 1)
        place = 2
        if names:
            for name in names:
                points = [(step, value) for step, key, value in self.notes if key == name]
                axes[place].plot(*zip(*points, strict=True), marker="o", ms=3, lw=1, label=name)
            axes[place].legend(fontsize=8, frameon=False)
            place += 1
        if epsilon is not None:
            axes[place].plot(self.steps, epsilon, color="#7a3b8f", lw=1)
            axes[place].set_ylabel("epsilon")
            axes[place].set_ylim(bottom=0)
        axes[-1].set_xlabel("step")
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)
        return figure
