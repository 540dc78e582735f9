"""Auditors side by side: ours and the peers' on the same runs, then what the comparison must show, each as PASS or FAIL.

A bound is valid if it exceeds the truth in no more runs than its confidence allows (and chance, once in a thousand). A method that
is not valid in one setting is no bound in any: it is printed, and neither its size nor its speed counts.

>>> board = Board()
>>> board.expect("ours is valid", True)
>>> board.close()
PASS  ours is valid
True
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments  # type: ignore[import-not-found]
import numpy as np
from measure import table  # type: ignore[import-not-found]

HERE = Path(__file__).resolve().parent
environments.PEERS["jax-privacy"] = ("jax-privacy==2.0.0",)
#: Its requirements are not declared: it needs both torch and TensorFlow to be imported at all.
environments.PEERS["privacy-meter"] = (
    "privacy-meter==1.0.1", "torch==2.13.0", "opacus==1.6.0", "tensorflow-cpu==2.21.0", "scikit-learn", "matplotlib", "seaborn", "pandas",
    "jinja2", "pillow",
)  # fmt: skip


@dataclass
class Found:
    """One auditor's bounds, a run each, and the processor seconds of all of them."""

    bounds: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, bound: float, seconds: float) -> None:
        self.bounds.append(bound)
        self.seconds += seconds


def theirs(peer: str, adapter: str, arrays: Mapping[str, Any], delta: float, significance: float) -> dict[str, Found]:
    """The peer's methods on these runs; empty, with a line that says why, where it cannot be had."""
    try:
        python = environments.interpreter(peer)
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "scores.npz"
            np.savez(path, **arrays)
            words = [str(python), str(HERE / adapter), str(path), str(delta), str(significance)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode:
            raise environments.Unavailable((done.stderr.splitlines() or ["no reason given"])[-1][:90])
        said = json.loads(done.stdout.splitlines()[-1])
    except (environments.Unavailable, subprocess.TimeoutExpired) as reason:
        print(f"{peer}: {reason}")
        return {}
    return {f"{peer}: {name}": Found(one["bounds"], one["seconds"]) for name, one in said.items()}


@dataclass
class Board:
    """All settings of one benchmark, and the criteria."""

    criteria: list[tuple[str, bool]] = field(default_factory=list)
    settings: list[tuple[str, dict[str, Found], dict[str, tuple[str, ...]]]] = field(default_factory=list)
    refuted: set[str] = field(default_factory=set)

    def expect(self, text: str, met: bool) -> None:
        self.criteria.append((text, met))

    def show(self, title: str, truth: float, found: dict[str, Found], rivals: Mapping[str, Sequence[str]], confidence: float) -> None:
        """Print a setting. `rivals` says which of the peers' methods each of ours is measured by: the kind of assumption they share."""
        opponent = {rival: mine for mine, them in rivals.items() for rival in them}
        rows = []
        for name, one in found.items():
            runs, error = len(one.bounds), 1 - confidence
            above = float(np.mean([bound > truth for bound in one.bounds]))
            if above > error + 3.1 * math.sqrt(error * confidence / runs):
                self.refuted.add(name)
            mine = found[opponent[name]] if name in opponent else None
            rows.append(
                (
                    name,
                    f"{np.mean(one.bounds):.3f}",
                    f"{np.mean(mine.bounds):.3f}" if mine else "",
                    f"{truth:.3f}",
                    f"{above:.0%}",
                    "NO" if name in self.refuted else "yes",
                    f"{1000 * one.seconds / runs:.2f}",
                    f"{one.seconds / mine.seconds:.1f}" if mine else "",
                    "",
                )
            )
        print(f"\n{title}")
        table(("auditor", "mean bound", "ours", "truth", "above it", "valid", "ms a run", "time, times ours", ""), rows)
        self.settings.append((title, found, {mine: tuple(them) for mine, them in rivals.items()}))

    def compare(self) -> None:
        """The criteria that every setting is held to, now that it is known who is valid."""
        for title, found, rivals in self.settings:
            short = title.partition(":")[0]
            bad = [name for name in found if name.startswith("tacit") and name in self.refuted]
            self.expect(f"{short}: ours above the truth no more often than stated{' (' + ', '.join(bad) + ')' if bad else ''}", not bad)
            for mine, them in rivals.items():
                valid = [name for name in them if name in found and name not in self.refuted]
                if valid:
                    best, ours = max(float(np.mean(found[name].bounds)) for name in valid), float(np.mean(found[mine].bounds))
                    quickest = min(found[name].seconds for name in valid)
                    self.expect(f"{short}: {mine}: as large as the best valid peer's ({ours:.3f} beside {best:.3f})", ours >= best)
                    times = quickest / found[mine].seconds
                    self.expect(f"{short}: {mine}: in less time than any ({times:.1f} times as fast)", times >= 1)

    def close(self) -> bool:
        for text, met in self.criteria:
            print(f"{'PASS' if met else 'FAIL'}  {text}")
        return all(met for _, met in self.criteria)
