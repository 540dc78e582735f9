"""Search over inputs: leaks that no fixed pattern reaches are found, what is sound is not called broken, and the bound holds."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.mechanisms import attack, audit_mechanism, outcomes, search_inputs
from tacit.audit.mechanisms.neighbours import neighbours
from tacit.noise import discrete_laplace

START = [1, 2, 3]


def sound(rows: list[int]) -> int:
    """A sum of values from 0 to 5 with noise for a difference of 5: epsilon 1."""
    return sum(rows) + int(discrete_laplace(5))


def narrow_gate(rows: list[int]) -> int:
    """The same, except that a sum of exactly 17 is answered without noise: a leak that needs the right rows."""
    return 17 if sum(rows) == 17 else sound(rows)


def local_noise(rows: list[int]) -> int:
    """The maximum with noise scaled by the gap between the two largest values: right for most data, and a leak where they agree."""
    top = sorted([0, 0, *rows])
    return top[-1] + int(discrete_laplace(1 + 5 * (top[-1] - top[-2])))


def test_a_leak_behind_a_gate_is_found_and_fixed_patterns_miss_it() -> None:
    found = search_inputs(narrow_gate, START, values=range(6), rounds=120, trials=3000, seed=1)
    assert found.looked_at == 121 and 17 in {sum(found.pair.first), sum(found.pair.second)}
    assert found.evidence.lower > 1.5
    fixed = [pair for pair in neighbours(START) if all(type(v) is int and 0 <= v <= 5 for v in (*pair.first, *pair.second))]
    assert not any(17 in {sum(pair.first), sum(pair.second)} for pair in fixed)
    assert not audit_mechanism(narrow_gate, "eps=1", neighbours=fixed, trials=2000, seed=1).broken
    assert audit_mechanism(narrow_gate, "eps=1", neighbours=[found.pair], trials=3000, seed=1).broken


def test_noise_that_follows_the_data_is_caught() -> None:
    """Noise of scale at least 1 on a maximum would be epsilon 5 at most for one row of 0 to 5; a changing scale leaks what it hides."""
    found = search_inputs(local_noise, [1, 4], values=range(6), relation="replace-one", rounds=80, trials=4000, seed=2)
    first, second = (sorted(rows)[-2:] for rows in (found.pair.first, found.pair.second))
    assert len(found.pair.first) == len(found.pair.second) and first != second
    assert found.evidence.lower > 1


@pytest.mark.parametrize("relation", [Adjacency.ADD_REMOVE, "replace-one"])
def test_a_sound_function_is_not_called_broken(relation: Adjacency | str) -> None:
    """The bound is above the truth with probability at most 0.05, however many pairs were looked at; here it is clearly below."""
    found = search_inputs(sound, START, values=range(6), relation=relation, rounds=60, trials=4000, seed=3)
    assert 0.5 < found.evidence.lower <= 1 and found.evidence.confidence == 0.95


def test_choosing_by_the_samples_that_measure_would_call_it_broken() -> None:
    """The mutant: the best of many looks, reported without fresh samples. On a function that ignores its rows it leaks, says the mutant."""

    def blind(rows: list[int]) -> int:
        return int(discrete_laplace(3))

    found = search_inputs(blind, START, values=range(6), rounds=40, trials=3000, seed=4)
    assert found.evidence.lower <= 0.1
    looks = [attack(outcomes(blind, START), outcomes(blind, START[:-1]), 60, confidence=0.05, seed=s).lower for s in range(40)]
    assert max(looks) > 0.2


def test_outputs_of_any_kind_are_searched() -> None:
    """Texts, None and exceptions are outputs: a function that raises on one set of rows."""

    coins = np.random.default_rng(6)

    def raising(rows: list[int]) -> str | None:
        if sorted(rows) == [3, 3]:
            raise ValueError("rows")
        return "fine" if coins.random() < 0.5 else None

    found = search_inputs(raising, [3, 0], values=range(4), rounds=80, trials=500, seed=5)
    assert [3, 3] in (sorted(found.pair.first), sorted(found.pair.second)) and found.evidence.lower > 2


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="values"):
        search_inputs(sound, START, values=[])
    with pytest.raises(ParameterError, match="zeroed"):
        search_inputs(sound, START, values=[1], relation=Adjacency.ZERO_OUT)
    with pytest.raises(ParameterError, match="rounds"):
        search_inputs(sound, START, values=[1], rounds=0)
