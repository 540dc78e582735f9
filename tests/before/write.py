"""Write down what the code does: draws, events, books and releases, as small files that later code must reproduce.

    cd OLD && PYTHONPATH=src python NEW/tests/before/write.py            write the fixtures with the code in OLD
    PYTHONPATH=src python tests/before/write.py --check                  compare this code with them, to the last bit

The fixtures were written by commit f259f1e. They are not to be written again unless a number is meant to change; then the commit says
which and why. One was: the lower end of the Rényi divergence of `Worst` had no margin for the bins it is worked out
on. Batches that are cut at random have a finite price (decision 0067), with a lower end for replacements too, which is
that of the tight pair by now (0131). The linear
models of `tacit.learning` are fitted in stages under one price now (decision 0072), least squares only as far as little harm is
predicted (0084), classifiers pay for their floor and fit twice where epsilon is large, products of rows are summed on a lattice of
their factors (0081), pure classifiers share their epsilon otherwise (0140), classifiers keep a slope by what its noise may cost (0165)
and by now by what it may be expected to gain (0200),
and objective perturbation spends on its determinant what that costs. The figures of a release are
published with the digits that their intervals leave a meaning to, counts as whole numbers; what was drawn is the same.

`test_before.py` makes the same comparison, but allows for what another processor may round differently.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"

if __name__ == "__main__":
    # a package of development installs a `tests` of its own, which would come before a folder without __init__
    ours = ModuleType("tests")
    ours.__path__ = [str(HERE.parent)]
    sys.modules["tests"] = ours

#: Rooms whose figures pass through libraries that choose their arithmetic by the processor: linear algebra, transforms, torch's kernels.
#: By how much they may differ on another machine, relatively. A draw that changed differs by far more.
ROUNDING = {"accounting": 1e-9, "learning": 1e-7, "deep": 1e-4, "tables": 1e-9, "release": 1e-7}


def sections() -> dict[str, Callable[[], Any]]:
    """Each fixture by its name, with what computes it."""
    from tests.before import books, draws, models, questions
    from tests.before.frozen import seeded

    return {
        "noise": lambda: seeded(draws.samplers()),
        "mechanisms": lambda: seeded(draws.mechanisms_()),
        "accounting": lambda: seeded(draws.prices()),
        "tables": lambda: seeded(questions.questions()),
        "learning": lambda: seeded(models.estimators()),
        "deep": lambda: seeded(models.networks()),
        "ledger": books.journal,
        "release": books.release,
    }


def kept(name: str) -> Any:
    """A fixture."""
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def differences(old: Any, new: Any, tolerance: float, place: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        found = []
        for name in names:
            here = f"{place}/{name}"
            if name not in old or name not in new:
                found.append(f"{here}: only {'before' if name in old else 'now'}")
            else:
                found += differences(old[name], new[name], tolerance, here)
        if not found and list(old) != list(new):
            found.append(f"{place}: the order of {', '.join(old)} has changed")
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, tolerance, f"{place}/{i}")]
    return [] if same(old, new, tolerance) else [f"{place}: was {str(old)[:80]}, is {str(new)[:80]}"]


def same(old: Any, new: Any, tolerance: float) -> bool:
    """Whether two leaves are equal: to the last bit, or for numbers up to rounding. An event's JSON is compared number by number."""
    if type(old) is type(new) and old == new:
        return True
    if not tolerance:
        return False
    if isinstance(old, str) and isinstance(new, str):
        if old.startswith("{") and new.startswith("{"):
            return not differences(weighed(json.loads(old)), weighed(json.loads(new)), tolerance)
        try:
            old, new = float.fromhex(old), float.fromhex(new)
        except ValueError:
            return alike(old, new, tolerance)
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (old, new))
    return numbers and math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)


def weighed(event: Any) -> Any:
    """An event in which a buffered strategy stands by its weights.

    An optimiser finds its scales and decays, and several of them give nearly the same weights: which ones are found depends on the
    processor's arithmetic. The weights are what is done to the noise.
    """
    if isinstance(event, list):
        return [weighed(one) for one in event]
    if not isinstance(event, dict):
        return event
    if event.get("type") == "Buffered":
        pairs = list(zip(event["scales"], event["decays"], strict=True))
        weights = [sum(scale * decay**step for scale, decay in pairs) for step in range(event["steps"])]
        return {"type": "Buffered", "weights": weights}
    return {name: weighed(value) for name, value in event.items()}


#: A decimal number or a fraction inside a text, such as a published table or an exact part of an event.
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:/\d+)?")


def alike(old: str, new: str, tolerance: float) -> bool:
    """Whether two texts are equal but for the rounding of the numbers in them."""
    if NUMBER.split(old) != NUMBER.split(new):
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return all(one == other or math.isclose(Fraction(one), Fraction(other), rel_tol=tolerance) for one, other in pairs)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="SECTION", help="which sections; all if none is named")
    parser.add_argument("--check", action="store_true", help="compare with the fixtures instead of writing them")
    given = parser.parse_args()
    FIXTURES.mkdir(exist_ok=True)
    wrong = 0
    known = sections()
    for name in given.names or known:
        now = json.loads(json.dumps(known[name]()))
        if given.check:
            found = differences(kept(name), now, 0.0)
            wrong += len(found)
            print(f"{name}: {len(found)} differences", *found[:20], sep="\n  ")
        else:
            lines = [f"{json.dumps(case)}: {json.dumps(value)}" for case, value in now.items()]
            (FIXTURES / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
            print(f"{name}: {len(now)} cases written")
    if not given.check and not given.names:
        from tests.before import books

        books.keep()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
