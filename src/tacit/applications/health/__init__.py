"""Health: cohort counts, survival curves, trials, genomes, each priced by the events of the rooms above.

Nothing here draws noise of its own. The number of patients is private everywhere.
"""

from tacit.applications.health.beacon import Beacon, Variant, carriers_in, draw_curve, operating_curve, prior_with_absence
from tacit.applications.health.beacon_attack import BeaconAnswers, auc, auc_limit, beacon_attack, rarest, simulated_people
from tacit.applications.health.clinical import CardRow, ModelCard, clinical_card
from tacit.applications.health.cohort import (
    CohortAnswer,
    CohortPlan,
    absolute,
    asymmetric,
    best_answer,
    cohort_count,
    exponential_count,
    plan_cohort,
    posterior,
    prevalence,
    squared,
    uniform,
)
from tacit.applications.health.contingency import ContingencyAnswer, ContingencyPlan, contingency_test, pearson, plan_contingency
from tacit.applications.health.genotypes import Genotypes, write_calls
from tacit.applications.health.gwas import (
    GENOME_WIDE,
    GwasAnswer,
    GwasPlan,
    Threshold,
    allele_counts,
    allelic,
    allelic_sensitivity,
    groups_of,
    plan_gwas,
    top_snps,
)
from tacit.applications.health.omop import PatientRecords, fhir, omop
from tacit.applications.health.power import SampleSize, critical_share, normal_laplace_cdf, sample_size, trial_power
from tacit.applications.health.survival import BEYOND, KaplanMeier, LogRank, SurvivalCurve, SurvivalPlan, edges_of, plan_survival

# counts of cohorts
__all__ = ["CohortAnswer", "CohortPlan", "absolute", "asymmetric", "best_answer", "cohort_count", "exponential_count"]
__all__ += ["plan_cohort", "posterior", "prevalence", "squared", "uniform"]
# trials
__all__ += ["SampleSize", "critical_share", "normal_laplace_cdf", "sample_size", "trial_power"]
__all__ += ["ContingencyAnswer", "ContingencyPlan", "contingency_test", "pearson", "plan_contingency"]
# survival
__all__ += ["BEYOND", "KaplanMeier", "LogRank", "SurvivalCurve", "SurvivalPlan", "edges_of", "plan_survival"]
# genomes
__all__ += ["GENOME_WIDE", "Genotypes", "GwasAnswer", "GwasPlan", "Threshold", "allele_counts", "allelic", "allelic_sensitivity"]
__all__ += ["groups_of", "plan_gwas", "top_snps", "write_calls"]
# beacons, and the attack on them
__all__ += ["Beacon", "BeaconAnswers", "Variant", "auc", "auc_limit", "beacon_attack", "carriers_in", "draw_curve", "operating_curve"]
__all__ += ["prior_with_absence", "rarest", "simulated_people"]
# sources, and the card of a model
__all__ += ["CardRow", "ModelCard", "PatientRecords", "clinical_card", "fhir", "omop"]
