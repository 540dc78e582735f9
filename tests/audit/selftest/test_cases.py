"""Every mechanism has a case, every case a claim and a floor, and a low floor a reason."""

from __future__ import annotations

import pytest

import tacit.mechanisms as public
from tacit.accounting import Adjacency
from tacit.audit.selftest import mechanism_cases, running, selection_cases, table_cases
from tacit.audit.selftest.case import Case

#: Names that are no mechanism of their own: the interface, the enumeration, and other words for what has a case.
OTHER_WORDS = {
    "Mechanism": "the interface",
    "verify": "enumerates, releases nothing",
    "counterexample": "searches what verify enumerates, releases nothing",
    "score_pairs": "inputs for verify, releases nothing",
    "JoinSize": "made by a function",
    "join_rows": "the exact size behind elastic_join_size",
    "spherical_laplace": "attacked where it is used, in the cases of vision",
    "best_selection": "picks one of the four rules for keys",
    "continual_counting": "picks the tree or the square root",
    "maximum": "a quantile",
    "minimum": "a quantile",
    "propose_test_release": "with the median or the quartiles",
    "recursive_star_count": "a recursive_clique_count of another pattern",
    "FoundCount": "what a recursive_clique_count answers",
    "smooth_quantile": "with q = 1/2",
    **dict.fromkeys(("BinaryTree", "GaussianMechanism", "GeometricMechanism", "LaplaceMechanism", "NoisyMax"), "made by a function"),
    **dict.fromkeys(("AboveThreshold", "PermuteAndFlip", "RandomisedResponse"), "made by a function"),
    "draw_runs": "the number of tries of a candidate_selection",
    "table_totals": "the sums of noisy_table, to which others add their noise",
    "Sparse": "the questions of an above_threshold that was begun",
    **dict.fromkeys(("OptimalSelection", "Holdings", "plain_key", "HaltedError", "Law"), "a part of one that has a case"),
    **dict.fromkeys(("HeavyTail", "Ladder", "ladder", "staircase_draw", "edge_flow"), "a part of one that has a case"),
    **dict.fromkeys(("loss_spread", "run_table", "runs_of"), "a part of the quantile"),
    **dict.fromkeys(("FoundBounds", "bounds_from", "cell_edges", "cell_numbers"), "a part of automatic bounds"),
    **dict.fromkeys(("noisy_count", "noisy_l1_sum", "noisy_outer_sum", "noisy_second_moment", "noisy_sum", "noisy_table"), "in training"),
    **dict.fromkeys(("LATTICE_BITS", "FactorRows", "bits_for", "clip_rows", "to_lattice"), "before noise is added to a sum of rows"),
    **dict.fromkeys(("farthest", "farthest_moment", "farthest_table"), "how far a person moves a sum of rows"),
    **dict.fromkeys(("exp_bracket", "half_width", "log_bracket"), "a number that nothing is drawn from"),
}


@pytest.fixture(scope="module")
def listed() -> list[Case]:
    return [case for part in running.parts() if part.name != "learning" and not part.missing for case in part.cases()]


def test_every_mechanism_has_a_case() -> None:
    used = set(vars(mechanism_cases)) | set(vars(selection_cases))
    assert set(public.__all__) - used == set(OTHER_WORDS)


def test_names_are_unique_and_floors_have_reasons(listed: list[Case]) -> None:
    names = [case.name for case in listed]
    assert len(set(names)) == len(names) >= 60
    assert all(0 <= case.floor < 1 for case in listed)
    assert [case.name for case in listed if case.floor < 0.35 and not case.why] == []


def test_what_quick_mode_leaves_out_it_attacks_elsewhere(listed: list[Case]) -> None:
    quick = {case.name for case in listed if not case.slow and not case.elsewhere}
    left_out = [case for case in listed if case.elsewhere]
    assert len(left_out) == 8
    for case in left_out:
        assert set(case.elsewhere) <= quick, case.name


def test_claims_are_finite_where_they_are_asked(listed: list[Case]) -> None:
    """A claim that permits anything could never be broken."""
    for case in listed:
        permitted = case.claim.event.mu if hasattr(case.claim.event, "mu") else case.claim.epsilon(case.delta)
        assert 0 < float(permitted) <= 10, case.name


def test_claims_are_stated_for_their_own_relation(listed: list[Case]) -> None:
    """A claim read under another relation would be doubled, and hide a leak of a factor two."""
    for case in listed:
        if case.claim.adjacency is Adjacency.REPLACE_ONE and hasattr(case.claim.event, "adjacency"):
            assert case.claim.event.adjacency is Adjacency.REPLACE_ONE, case.name


def test_a_table_gives_as_many_samples_as_it_is_asked_for() -> None:
    assert table_cases.asked("COUNT(*)", [1.0], epsilon=1)(50).shape == (50,)
    assert table_cases.asked("COUNT(*)", [1.0], spread=2, epsilon=1)(50).shape == (50, 2)


def test_samples_of_the_noise_are_fresh() -> None:
    case = mechanism_cases.noise_cases()[0]
    assert list(case.first(100)) != list(case.first(100))
