"""Every computed figure of the digests of chapters 9 to 11 and their companion, with the test that holds it.

A row says where a figure stands, which text of a test has it, and in which test. The test must exist, and its source (or that of
the constants of its file) must have the text, so that neither a figure nor its test is lost unseen. Figures that came
out differently have the reason beside them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
C9, C10, C11 = (f"tests/conformance/test_chapter_{n}.py" for n in (9, 10, 11))
H, E, V = (f"tests/applications/{room}" for room in ("health", "energy", "vision"))

#: Where it stands: (what the test's file says, the file, the test).
FIGURES: dict[str, tuple[tuple[str, ...], str, str]] = {
    # --- chapter 9 ---
    "9.3.1b deviations of the noise": (("28.281", "19.992", "0.02499", "0.951229", "7.059", "1.357"), C9, "test_the_noise_of_a_count"),
    "9.3.1b largest ratio is e^eps, mass at the ends": (("a^c / (1 + a)",), C9, "test_the_largest_loss_of_a_clamped_count_is_epsilon"),
    "9.3.1b P(|err| <= 2), P(|err| <= 12)": (("0.118", "0.465"), C9, "test_the_printed_draws_are_draws"),
    "9.3.1b answers 996, 992, 1000, 11": (("[996, 992]", "== 1000", "== 11"), C9, "test_answers_by_loss_and_prior"),
    "9.3.1c binary tree, with and without rising counts": (("0.189", "0.110"), C9, "test_counts_are_made_to_rise_before_the_product"),
    "9.3.1c and 2.2 binary tree and plain histogram": (
        ("0.046, 0.026, 0.0031", "0.052, 0.032, 0.0053", "0.039, 0.019, 0.0030"),
        C9,
        "test_the_other_rows_of_the_table",
    ),
    "2.2 this, eps 1 and .1, and replaced": (
        ("0.0258, 0.0141, 0.0018", "0.129, 0.083, 0.015", "0.047, 0.031, 0.0042"),
        C9,
        "test_curves_are_at_least_as_near_as_the_table_says",
    ),
    "2.2 Gaussian, delta 1e-6": (("0.037, 0.019, 0.0027",), C9, "test_curves_are_at_least_as_near_as_the_table_says"),
    "9.3.1c and 2.2 quantiles": (("0.0025", "0.0045"), C9, "test_few_curves_are_far_off"),
    "9.3.1c patients replaced, eps .1": ((".0057, and epsilon .1, .025"), C9, "test_the_other_rows_of_the_table"),
    "2.2 the issue's limits": (("0.0022", "0.017", "0.031"), f"{H}/test_survival.py", "test_the_mean_error_of_the_curve"),
    "2.2 flchain and dd": (
        ("7874", "2169", "0.9272, 0.8052", "0.334, 0.1813"),
        f"{H}/test_survival.py",
        "test_lifelines_own_figures_on_flchain_and_dd",
    ),
    "9.3.2 sample sizes": (
        (
            "194.26, 202.03, 202.02",
            "222.48, 222.33",
            "505.07, 500.36",
            "4060.4, 4011.3",
            "47.09, 223.04, 220.84",
            "782.93, 1275.29, 1267.84",
        ),
        C9,
        "test_sample_sizes",
    ),
    "9.3.2 K": (("1.040", "2.600", "2.576"), C9, "test_how_many_times_as_many_patients"),
    "9.3.2 power and size at 501": (("501", "0.80", "0.0253"), C9, "test_the_exact_size_is_confirmed_by_simulation"),
    "9.3.2 normal-Laplace law": (("mpmath.quad",), f"{H}/test_power.py", "test_the_law_is_that_of_the_sum"),
    "2.3 level": (("0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)",), f"{H}/test_contingency.py", "test_the_level_is_kept_in_two_thousand"),
    "2.3 power .60, .88, 1.0 (.56, .86, 1.0 measured; the test allows .06)": (
        ('"1/2", 0.6', '"1/10", 0.88', "1, 1.0"),
        f"{H}/test_contingency.py",
        "test_the_power_of_the_specification",
    ),
    "E25 12% and 26% (.33 for even margins under replace-one)": (
        ("0.12, 0.03", "0.26, 0.03", "0.33, 0.03"),
        C9,
        "test_pearsons_test_on_noisy_tables_has_the_wrong_size",
    ),
    "9.3.3a and 2.4 operating curves, .5498": (
        (
            "0.990, 0.012, 0.027, 0.074, 0.550, 0.992",
            "0.926, 0.091, 0.202, 0.550, 0.939, 0.999",
            "0.998, 0.005, 0.269, 0.995, 1.0, 1.0",
            "0.5498",
        ),
        C9,
        "test_the_operating_curve_of_a_beacon",
    ),
    "2.4 attack on exact answers .980 / .993 / .995": (
        ("(5, 0.98)", "(10, 0.985)", "(20, 0.985)"),
        f"{H}/test_beacon.py",
        "test_exact_answers_tell_who_is_a_member",
    ),
    "2.4 limit .731": (("0.731", "0.018"), f"{H}/test_beacon.py", "test_at_epsilon_one_in_all_the_attack_stays_below_its_limit"),
    "9.3.3b statistics and sensitivity": (
        ("16.0", "21.2754", "7.2727, 8.5714, 8.2152"),
        C9,
        "test_allelic_statistics_and_their_sensitivity",
    ),
    "9.3.3b the literature's sensitivity": (("6.63",), C9, "test_the_sensitivity_of_the_literature_is_too_small_at_the_corners"),
    "2.5 sensitivity by brute force": (
        ("(3, 5), (10, 10), (10, 20), (20, 35)",),
        f"{H}/test_gwas.py",
        "test_the_sensitivity_is_that_of_brute_force",
    ),
    "9.3.3b and 2.5 shares found, both studies": (
        ("0.57, 0.90, 1.0, 1.0", "0.00, 0.03, 0.27, 0.63", "0.58, 0.85, 1.00, 1.00", "0.00, 0.00, 0.06, 0.62"),
        C9,
        "test_shares_of_the_top_variants",
    ),
    "2.5 private threshold": (("0.51", "0.70", "0.94"), f"{H}/test_gwas.py", "test_a_private_threshold_finds_fewer"),
    "2.5 Laplace": (("0.07",), f"{H}/test_gwas.py", "test_laplace_noise_on_the_statistics_finds_next_to_nothing"),
    "E26 scale 164": (("164.3",), C9, "test_a_private_threshold_is_mostly_noise"),
    # --- chapter 10 ---
    "10.3.2 noise of bins": (("10 / 5 / 2.5 / 1.25", "76 / 38 / 19 / 9.5"), f"{E}/test_charging.py", "test_figure_10_1s_noise"),
    "10.3.2 e^.71": (("2.034",), f"{E}/test_charging.py", "test_the_day_is_chosen_by_clamped_energy"),
    "10.3.2 and 2.6 the month": (("611", "771"), f"{E}/test_charging.py", "test_the_made_up_month_has_the_books_shape"),
    "10.4 B matrix to 1e-9": (("1e-9",), f"{E}/test_network.py", "test_the_matrix_is_pandapowers_own"),
    "10.5.2 linear costs": (("[10, 35, 270]",), f"{E}/test_dispatch.py", "test_linear_costs_of_nine_buses"),
    "10.5.2 quadratic costs": (("86.564, 134.378, 94.058", "5216.03"), C10, "test_the_quadratic_dispatch_of_nine_buses"),
    "10.5.3 columns add up to 1": (("ours.sum(axis=0), 1",), f"{E}/test_sensitivity.py", "test_the_jacobian_is_the_textbooks_as_corrected"),
    "10.5.3 finite differences to 1e-8": (("1e-8",), f"{E}/test_sensitivity.py", "test_the_jacobian_is_the_slope_of_the_linear_program"),
    "10.5.3 and E21 ratios and sets": (
        ("2.008102, 60", "48.6532, 91", "2633.6341, 6144"),
        f"{E}/test_sensitivity.py",
        "test_published_ratios",
    ),
    "10.5.3 buses 9 and 5": (("-2.008102, 3.008102", "2.956, -1.956"), f"{E}/test_sensitivity.py", "test_figure_10_3"),
    "10.5.3 attained and never exceeded": (
        ("worst",),
        f"{E}/test_sensitivity.py",
        "test_random_networks_of_nine_buses_never_exceed_the_ratio_and_come_near",
    ),
    "10.5.4 6.0162 and 30.08 MW": (("6.0162", "30.08"), f"{E}/test_regions.py", "test_the_scale_of_nine_buses"),
    "10.5.4 and E19 2 (Delta + eps)": (("6.0162",), C10, "test_generators_and_the_load_move_by_twice_the_change_and_what_falls"),
    "10.5.5 Gamma law of the radius": (("2 / epsilon**2",), C10, "test_the_radius_of_planar_noise"),
    "10.5.5 factor 2": (("2 * np.abs(noisy - truth)",), C10, "test_a_restoration_that_keeps_the_truth_is_within_twice_the_noise"),
    "E22 13% and 24% (11% and 41% here)": (("13%", "24%"), C10, "test_some_dispatch_within_the_band_does_not_bound_the_cheapest"),
    "2.7 slope 3.9": (("3.9",), C10, "test_the_dearest_load_of_thirty_buses"),
    "2.8 infeasible in 6 of 10": (
        ("6 of 10",),
        f"{E}/test_private_case.py",
        "test_plain_noise_is_often_infeasible_where_a_release_never_is",
    ),
    "2.8 ratios": (("1.3", "> 2"), f"{E}/test_private_case.py", "test_a_hundred_runs"),
    # --- chapter 11 ---
    "E15 delta = p": (("= p.",), f"{V}/test_pixels.py", "test_the_coin_flip_has_its_delta_at_every_epsilon"),
    "E16 and 3.1 21.25, 28.33, 15.94": (
        ("Fraction(85, 4)", "28.33", "15.9375"),
        f"{V}/test_pixelize.py",
        "test_the_printed_scale_for_means_is_too_small_where_cells_are_cut",
    ),
    "E23 1.33 and 1.78": (("1.33", "1.78"), f"{V}/test_pixelize.py", "test_the_epsilons_of_the_printed_table"),
    "E24 .403": (("0.403",), f"{V}/test_reidentify.py", "test_one_of_eighty_is_guessing"),
    "11.2.1 .0105 and .368": (("0.0105", "0.368"), f"{V}/test_pixels.py", "test_the_chance_of_the_truth"),
    "11.2.1 scales": (("159.375", "31.875", "15.9375"), f"{V}/test_pixelize.py", "test_scales_of_the_specification"),
    "11.2.1 2032 and the limit of 128": (("2032", "128"), C11, "test_the_noise_of_a_cell_before_it_is_clipped"),
    "11.2.1 717": (("717",), f"{V}/test_pixelize.py", "test_large_secrets_leave_nothing_to_see"),
    "3.1 765 m for colour": (("765",), f"{V}/test_pixelize.py", "test_colour_costs_epsilon_and_not_three_times_it"),
    "3.1 sigma 15.2": (("15.2",), f"{V}/test_blur.py", "test_the_usual_sigma"),
    "11.2.2 move 8, deviation 4": (("- 8)", "- 4)"), C11, "test_the_move_of_singular_values"),
    "3.1 first face": (("13779, 2247, 1049, 957",), f"{V}/test_singular.py", "test_the_first_face_of_the_specification"),
    "11.2.3 150": (("150",), f"{V}/test_video.py", "test_ten_seconds_frame_by_frame_cost_150"),
    "11.2.3 flips and deltas": (("0.3775, 0.475, 0.4958", "0.66, 0.011"), C11, "test_flips_and_deltas_of_video"),
    "11.2.4 2 r w / eps": (("2 r w / epsilon",), f"{V}/test_gaze.py", "test_points_move_by_2rw_over_epsilon"),
    "11.3 and 3.3 14.49, 24.909, .99": (("14.49", "24.909"), f"{V}/test_quality.py", "test_the_shifted_boat_of_the_book"),
    "3.2 plain pixels 97": ((">= 95",), f"{V}/test_reidentify.py", "test_plain_pixelization_hides_nobody"),
    "3.2 sums 4.7 / 40 / 80": (('"0.1", 5', '"0.5", 40', '"1", 80'), f"{V}/test_reidentify.py", "test_pixelization_with_noise_on_sums"),
    "3.2 one scale 3.8 / 45 / 78 and 3.8 / 27 / 66": (("3.8, 45, 78", "3.8, 27, 66"), C11, "test_one_scale_for_all_means"),
    "3.2 DP-Blur": (('"0.1", 5', '"0.5", 10', '"1", 22'), f"{V}/test_reidentify.py", "test_blur_with_noise"),
    "3.2 98, blur 95, eps 4, m 64, m 360 at 5, 5%": (
        ("epsilon=4", "pixels=64", "pixels=360, epsilon=5", '"0.05"'),
        f"{V}/test_reidentify.py",
        "test_the_rest_of_the_specifications_table",
    ),
    "3.2 eps 2, m 360 at 1, 1%": (("94", "56"), C11, "test_other_cells_of_the_faces"),
    "3.2 DP-SVD 98": ((">= 95",), f"{V}/test_reidentify.py", "test_singular_values_hide_nobody_of_forty"),
    "3.2 MNIST": (("12, 18, 23.5", "11, 14.5, 18.5"), C11, "test_digits"),
    "3.2 MNIST pixelized 51": (("plain",), f"{V}/test_reidentify.py", "test_digits_of_the_specification"),
}

#: Errata, with the test that fails for the printed form; E18 is about words and dates.
ERRATA: dict[str, tuple[str, str]] = {
    "E1": (C9, "test_the_ratio_one_over_epsilon_falls_short_of_the_claim"),
    "E2": (C9, "test_noise_that_is_clamped_before_it_is_added_loses_everything"),
    "E3": (C9, "test_a_signed_loss_is_degenerate"),
    "E4": (f"{H}/test_survival.py", "test_the_price_is_one_event_whatever_is_read"),
    "E5": (C9, "test_the_printed_root_equation_has_no_solution"),
    "E6": (C9, "test_the_printed_laplace_scale_is_its_deviation"),
    "E7": (C9, "test_statistics_of_k_variants_cost_k_times_one"),
    "E8": (C9, "test_a_choice_is_weighted_by_its_own_distance_over_2k"),
    "E9": (C9, "test_the_printed_class_weight_is_inverted"),
    "E10": (f"{E}/test_sensitivity.py", "test_the_theorem_as_printed_has_no_square_matrix"),
    "E11": (C10, "test_signs_of_the_matrices"),
    "E12": (C10, "test_the_factor_of_outputs_is_not_dropped"),
    "E12b": (f"{E}/test_regions.py", "test_generation_and_load_have_noise_of_their_own"),
    "E13": (f"{E}/test_charging.py", "test_price_by_unit_and_relation"),
    "E14": (f"{E}/test_private_case.py", "test_a_paid_cost_is_composed_and_its_noise_is_price_times_change"),
    "E15": (f"{V}/test_pixels.py", "test_the_coin_flip_has_its_delta_at_every_epsilon"),
    "E16": (f"{V}/test_pixelize.py", "test_the_printed_scale_for_means_is_too_small_where_cells_are_cut"),
    "E17": (C11, "test_an_epsilon_for_each_pixel_is_not_one_for_a_radius"),
    "E19": (C10, "test_generators_and_the_load_move_by_twice_the_change_and_what_falls"),
    "E20": (C10, "test_an_infeasible_load_makes_the_plain_operator_fail"),
    "E21": (f"{E}/test_sensitivity.py", "test_published_ratios"),
    "E22": (C10, "test_some_dispatch_within_the_band_does_not_bound_the_cheapest"),
    "E23": (f"{V}/test_pixelize.py", "test_the_epsilons_of_the_printed_table"),
    "E24": (f"{V}/test_reidentify.py", "test_one_of_eighty_is_guessing"),
    "E25": (C9, "test_pearsons_test_on_noisy_tables_has_the_wrong_size"),
    "E26": (C9, "test_a_private_threshold_is_mostly_noise"),
    "E27": (C9, "test_a_patient_who_moves_changes_two_cells"),
}


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("place", FIGURES)
def test_a_figure_has_its_test(place: str) -> None:
    texts, file, name = FIGURES[place]
    source = text_of(file)
    assert re.search(rf"^def {name}\(", source, re.MULTILINE), name
    assert all(text in source for text in texts), [text for text in texts if text not in source]


@pytest.mark.parametrize("erratum", ERRATA)
def test_a_printed_form_has_the_test_that_it_fails(erratum: str) -> None:
    file, name = ERRATA[erratum]
    assert re.search(rf"^def {name}\(", text_of(file), re.MULTILINE), name


def test_no_erratum_is_missing() -> None:
    assert {re.match(r"E\d+", one)[0] for one in ERRATA} == {f"E{n}" for n in range(1, 28) if n != 18}  # type: ignore[index]
