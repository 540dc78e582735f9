"""Who pays for the noise: fairness measured, learned and reported under the same budget as everything else.

Privacy is about the people whose data is used, fairness about those on whom the result is used; the two are promised
separately. Everything here that reads labels, groups or predictions of private people is an event on an account. There is
no fairness accountant: fairness does not compose, so a pipeline is measured as a whole.

- groups: `rates` (public rows), `private_rates` (noisy counts, intervals), `EqualizedOdds` (a correction), `FairClassifier` and
  `fair_mixture` (a game), `fair_card` (what such a classifier says of itself)
- scores: `calibration`, `private_calibration`, `multicalibrate`, `audit`
- individuals: `fair_lp`, `lipschitz`, `private_lp`, `learn_submetric`, `MetricSession`
- who pays: `disparate_impact`, `gradient_telemetry`, `allocate`, `threshold_error`, `choose_shift`, `apportion`
- pipelines: `all_of`, `any_of`, `competing`, `stages`, `in_sequence`, `measured`, `plot_parts`

>>> incompatible("equalized_odds", "demographic_parity")[0][:48]
'equalized_odds and demographic_parity cannot bot'
"""

# Imports inside functions: scipy, pandas, torch and matplotlib are needed only by some figures.

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.fairness.allocation import (
        FundShares,
        SeatsUnderNoise,
        all_thresholds,
        allocate,
        apportion,
        choose_shift,
        clipping_bias,
        seats_under_noise,
        threshold_error,
        weighted_regression,
    )
    from tacit.fairness.calibration import Calibration, calibration, private_calibration
    from tacit.fairness.cards import FairCard, fair_card
    from tacit.fairness.errors import FairnessError
    from tacit.fairness.game import Auditor, FairClassifier, Mixture, fair_mixture
    from tacit.fairness.impact import Impact, Telemetry, disparate_impact, gradient_telemetry, telemetry_of
    from tacit.fairness.individual import (
        FairDecisions,
        LipschitzCheck,
        check_metric,
        d_inf,
        d_tv,
        fair_lp,
        lipschitz,
        private_lp,
        shortest_paths,
    )
    from tacit.fairness.multicalibration import Miscalibration, Multicalibrated, audit, expected_noise, multicalibrate
    from tacit.fairness.pipelines import all_of, any_of, competing, in_sequence, measured, plot_parts, stages
    from tacit.fairness.private_rates import PrivateRates, RateEstimate, noise_for, private_rates
    from tacit.fairness.rate_intervals import rate_interval
    from tacit.fairness.rates import (
        NOTIONS,
        RATES,
        Groups,
        Rates,
        demographic_parity_difference,
        equal_opportunity_difference,
        equalized_odds_difference,
        group_words,
        incompatible,
        rates,
        rates_of,
    )
    from tacit.fairness.submetric import CloserQuestion, DistanceQuestion, MetricSession, Submetric, learn_submetric
    from tacit.fairness.thresholds import Correction, EqualizedOdds, correct, corrected_gap, expected_rates

# Modules are loaded when first used: the estimators need scikit-learn, and most callers need one of them.
__getattr__, __dir__ = lazily(__name__, {
    "allocation": (
        "FundShares", "SeatsUnderNoise", "all_thresholds", "allocate", "apportion", "choose_shift", "clipping_bias",
        "seats_under_noise", "threshold_error", "weighted_regression",
    ),
    "calibration": ("Calibration", "calibration", "private_calibration"),
    "cards": ("FairCard", "fair_card"),
    "errors": ("FairnessError",),
    "game": ("Auditor", "FairClassifier", "Mixture", "fair_mixture"),
    "impact": ("Impact", "Telemetry", "disparate_impact", "gradient_telemetry", "telemetry_of"),
    "individual": (
        "FairDecisions", "LipschitzCheck", "check_metric", "d_inf", "d_tv", "fair_lp", "lipschitz", "private_lp",
        "shortest_paths",
    ),
    "multicalibration": ("Miscalibration", "Multicalibrated", "audit", "expected_noise", "multicalibrate"),
    "pipelines": ("all_of", "any_of", "competing", "in_sequence", "measured", "plot_parts", "stages"),
    "private_rates": ("RateEstimate", "PrivateRates", "noise_for", "private_rates"),
    "rate_intervals": ("rate_interval",),
    "rates": (
        "NOTIONS", "RATES", "Groups", "Rates", "demographic_parity_difference", "equal_opportunity_difference",
        "equalized_odds_difference", "group_words", "incompatible", "rates", "rates_of",
    ),
    "submetric": ("CloserQuestion", "DistanceQuestion", "MetricSession", "Submetric", "learn_submetric"),
    "thresholds": ("Correction", "EqualizedOdds", "correct", "corrected_gap", "expected_rates"),
})  # fmt: skip

__all__ = [
    "NOTIONS",
    "RATES",
    "Auditor",
    "Calibration",
    "CloserQuestion",
    "Correction",
    "DistanceQuestion",
    "EqualizedOdds",
    "FairCard",
    "FairClassifier",
    "FairDecisions",
    "FairnessError",
    "FundShares",
    "Groups",
    "Impact",
    "LipschitzCheck",
    "MetricSession",
    "Miscalibration",
    "Mixture",
    "Multicalibrated",
    "PrivateRates",
    "RateEstimate",
    "Rates",
    "SeatsUnderNoise",
    "Submetric",
    "Telemetry",
    "all_of",
    "all_thresholds",
    "allocate",
    "any_of",
    "apportion",
    "audit",
    "calibration",
    "check_metric",
    "choose_shift",
    "clipping_bias",
    "competing",
    "correct",
    "corrected_gap",
    "d_inf",
    "d_tv",
    "demographic_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "equalized_odds_difference",
    "expected_noise",
    "expected_rates",
    "fair_card",
    "fair_lp",
    "fair_mixture",
    "gradient_telemetry",
    "group_words",
    "in_sequence",
    "incompatible",
    "learn_submetric",
    "lipschitz",
    "measured",
    "multicalibrate",
    "noise_for",
    "plot_parts",
    "private_calibration",
    "private_lp",
    "private_rates",
    "rate_interval",
    "rates",
    "rates_of",
    "seats_under_noise",
    "shortest_paths",
    "stages",
    "telemetry_of",
    "threshold_error",
    "weighted_regression",
]  # fmt: skip
