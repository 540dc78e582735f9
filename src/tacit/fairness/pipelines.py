"""Several decisions in a row, in competition, or joined by AND and OR: measured together.

Fairness does not compose. Two decisions that are each fair can be unfair together, and there is no accountant that adds
gaps up (Dwork, Ilvento 2019). So a pipeline is described by its parts and measured as a whole: each part gives every
person a probability of being accepted, the pipeline joins them, and the rates by group are those of the result.

>>> import numpy as np
>>> first, second = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0])  # each accepts half of either group
>>> both = all_of(first, second)
>>> whole = measured(both, [1, 1, 1, 1], groups={"sex": ["F", "M"]}, sensitive_features=["F", "F", "M", "M"])
>>> whole.difference("demographic_parity")
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.fairness.errors import FairnessError
from tacit.fairness.rates import Groups, People, Rates, binary
from tacit.pictures import BLUE, RED, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def _chances(part: ArrayLike) -> Array:
    found = np.asarray(part, dtype=np.float64)
    if found.ndim != 1 or not ((found >= 0) & (found <= 1)).all():
        raise FairnessError(code="scores-range", name="the chance of being accepted")
    return found


def _same(parts: Sequence[ArrayLike]) -> list[Array]:
    found = [_chances(part) for part in parts]
    if not found or len({len(part) for part in found}) != 1:
        raise FairnessError(code="rows-differ", column="a part of the pipeline")
    return found


def all_of(*parts: ArrayLike) -> Array:
    """Accepted by every part, each deciding by itself: the chances multiply.

    >>> all_of([0.5, 1.0], [0.5, 0.2]).tolist()
    [0.25, 0.2]
    """
    return np.asarray(np.prod(_same(parts), axis=0))


def any_of(*parts: ArrayLike) -> Array:
    """Accepted by at least one part.

    >>> any_of([0.5, 1.0], [0.5, 0.2]).tolist()
    [0.75, 1.0]
    """
    return np.asarray(1 - np.prod([1 - part for part in _same(parts)], axis=0))


def competing(*parts: ArrayLike) -> list[Array]:
    """Parts that bid for the same place, the first named winning: what each part is left with.

    Advertisers are such parts: one that is fair by itself shows an unequal picture where another one outbids it for some.

    >>> [won.tolist() for won in competing([1.0, 0.0], [1.0, 1.0])]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    left, found = None, []
    for part in _same(parts):
        left = np.ones_like(part) if left is None else left
        found.append(left * part)
        left = left * (1 - part)
    return found


def stages(first: ArrayLike, *later: Callable[[Array], ArrayLike]) -> Array:
    """One stage after another: each later one is given the chances of being still there, and says who goes on.

    A stage may look at who is left, as one that takes the best k of those who came through does.

    >>> stages([1.0, 0.5], lambda there: 0.5 * there).tolist()
    [0.5, 0.25]
    """
    there = _chances(first)
    for stage in later:
        there = np.minimum(there, _chances(stage(there)))
    return there


def in_sequence(chances: ArrayLike, places: int) -> Array:
    """Candidates who come one after the other for so many places: the chance that there is still one, and it is given to them.

    Two candidates of equal merit have unequal chances if one comes later.

    >>> in_sequence([0.5, 0.5, 0.5], 1).tolist()
    [0.5, 0.25, 0.125]
    """
    wanted = _chances(chances)
    taken = np.zeros(places + 1)
    taken[0] = 1.0
    found = np.zeros(len(wanted))
    for i, chance in enumerate(wanted):
        free = 1 - taken[places]
        found[i] = chance * free
        moved = taken[:places] * chance
        taken[:places] -= moved
        taken[1:] += moved
    return found


def plot_parts(
    parts: Mapping[str, Rates], *, notion: str = "demographic_parity", ax: Axes | None = None, path: Path | None = None
) -> Figure:
    """The gap of every part, and of the whole, side by side: `parts` names what `measured` found for each.

    >>> terms = {"groups": {"g": ["a", "b"]}, "sensitive_features": ["a", "a", "b", "b"]}
    >>> one, other = measured([1, 0, 1, 0], [1] * 4, **terms), measured([1, 0, 0, 1], [1] * 4, **terms)
    >>> both = measured(all_of([1, 0, 1, 0], [1, 0, 0, 1]), [1] * 4, **terms)
    >>> figure = plot_parts({"first": one, "second": other, "both": both})
    """
    figure, axes = canvas(ax, path)
    gaps = [found.difference(notion) for found in parts.values()]
    places = np.arange(len(gaps))
    axes.bar(places, gaps, 0.6, color=[BLUE if gap < 0.01 else RED for gap in gaps])
    for place, gap in zip(places.tolist(), gaps, strict=True):
        axes.text(place, gap, f"{gap:.2f}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(places, list(parts))
    axes.set_ylim(0, max(0.1, 1.15 * max(gaps, default=0.0)))
    dress(axes, "Fair parts, and what they make together", "", f"gap ({notion.replace('_', ' ')})")
    return finish(figure, path)


def measured(
    accepted: ArrayLike, y: ArrayLike, *, groups: Mapping[str, Iterable[object]] | Groups, sensitive_features: object,
    positive: object = 1,
) -> Rates:  # fmt: skip
    """The rates by group of a whole pipeline, from each person's chance of being accepted; of rows that may be looked at.

    For private people, draw the decisions and give them to `tacit.fairness.private_rates`.
    """
    chances = _chances(accepted)
    people = People.of(y, chances, sensitive_features, groups, positive)
    label, group = binary(people.label, positive), people.groups.codes(people.features)
    counts = np.zeros((people.groups.size, 2, 2))
    known = group >= 0
    np.add.at(counts[:, :, 1], (group[known], label[known]), chances[known])
    np.add.at(counts[:, :, 0], (group[known], label[known]), 1 - chances[known])
    return Rates(people.groups, counts)
