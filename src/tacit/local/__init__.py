"""Local and shuffled privacy: reports are randomised on people's devices, so no collector is trusted.

>>> protocol = frequencies(["smile", "wink", "cry"], epsilon=1)
>>> reports = protocol.randomiser.privatise(protocol.places(["smile", "cry", "cry"]))
>>> reports.shape
(3,)
"""

from tacit.local.calm import ViewAnswers, Views, view_shares
from tacit.local.choose import best, candidates, explain, frequencies
from tacit.local.client import Client
from tacit.local.collector import Collector, Estimates, detectable
from tacit.local.crowds import CrowdShuffler
from tacit.local.domain import Numbers
from tacit.local.fragments import FragmentReports, FragmentSearch, HashedWords, puzzle
from tacit.local.graphs import GraphModel, NoisyAdjacency, degree_event, edge_event, generated, noisy_adjacency, noisy_degrees
from tacit.local.grouped import GroupedRandomiser
from tacit.local.hadamard import BlockHadamard, Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.heavy_hitters import PrefixCandidates, PrefixSearch, find
from tacit.local.lopub import RowAnswers, WholeRows, whole_rows
from tacit.local.marginals import FeatureRows, HadamardMarginals, MarginalAnswers, marginal_shares
from tacit.local.noise_shares import poisson, polya_share, skellam_share
from tacit.local.places import PlanarLaplace, SafeZone, Taxonomy, UniformGrid, ZoneAnswers, grid_shares, zone_protocol
from tacit.local.planner import LocalPlan, Option, people_needed, plan
from tacit.local.poisoning import Suspicion, forge, forged_for, shift, suspicious
from tacit.local.postprocess import clip, iterative_bayes, norm_sub, simplex
from tacit.local.projective import Projective
from tacit.local.protocol import Label, Protocol
from tacit.local.randomiser import Randomiser
from tacit.local.ranges import GridAnswers, GridCells, GridTree, Haar, RangeAnswers, RangeTree, grids, range_shares
from tacit.local.rappor import BloomCounts, Decoded, Device, Rappor, joint_shares
from tacit.local.recommender import ItemProfiles, factorised
from tacit.local.replicas import Replicas, noised, update_event
from tacit.local.reports import (
    HEAD,
    as_batch,
    batch_sizes,
    protocol_of,
    read_batch,
    read_reports,
    read_stream,
    schema,
    sealed,
    to_batch,
    to_report,
)
from tacit.local.response import Response
from tacit.local.scalars import Duchi, Hybrid, LocalLaplace, Mean, Piecewise, ScalarRandomiser, best_scalar, means
from tacit.local.shuffler import Shuffler
from tacit.local.sketches import AnyKeys, Bloom, CountMeanSketch, CountSketch, SketchAnswers, SketchRandomiser, sketched
from tacit.local.subset import Subset
from tacit.local.telemetry import BitFlip, OneBitMean, RoundingDevice
from tacit.local.text import TaggedTexts, TagWordModel, Triple, next_words, sampled_triple
from tacit.local.training import GradientRound, LeastSquares, Trained, least_squares_moments, moments, partition_users, trained
from tacit.local.unary import SymmetricUnary, Unary
from tacit.local.vectors import (
    BoundedVectors,
    MeanVector,
    PrivUnit,
    Projected,
    SampledCoordinates,
    ShareOfEpsilonWarning,
    SplitCoordinates,
    UnitVectors,
    VectorRandomiser,
    best_cap,
    cap_share,
    projected,
    unit_vectors,
    vector_means,
)

# what a protocol is, and which one to take
__all__ = ["Label", "Protocol", "Randomiser", "best", "candidates", "detectable", "explain", "frequencies"]
# randomisers for frequencies
__all__ += ["BlockHadamard", "Hadamard", "LocalHash", "Projective", "Response", "Subset", "SymmetricUnary", "Unary"]
# reports, and who counts them
__all__ += ["Client", "Collector", "Estimates", "as_batch", "batch_sizes", "protocol_of", "read_batch", "read_reports", "schema", "sealed"]
__all__ += ["HEAD", "to_batch", "to_report"]
# between people and the collector: shuffling, shares of noise, forged reports
__all__ += ["CrowdShuffler", "Shuffler", "Suspicion", "forge", "forged_for", "poisson", "polya_share", "shift", "skellam_share"]
__all__ += ["suspicious"]
# before anything is sent
__all__ += ["LocalPlan", "Option", "people_needed", "plan"]
# numbers
__all__ += ["Duchi", "Hybrid", "LocalLaplace", "Mean", "Numbers", "Piecewise", "ScalarRandomiser", "best_scalar", "means"]
# vectors
__all__ += ["MeanVector", "PrivUnit", "Projected", "SampledCoordinates", "ShareOfEpsilonWarning", "SplitCoordinates", "UnitVectors"]
__all__ += ["BoundedVectors", "VectorRandomiser", "best_cap", "cap_share", "projected", "unit_vectors", "vector_means"]
# ordered values, and people split into groups
__all__ += ["GridAnswers", "GridCells", "GridTree", "GroupedRandomiser", "Haar", "RangeAnswers", "RangeTree", "grids", "range_shares"]
# words that are on no list
__all__ += ["PrefixCandidates", "PrefixSearch", "find"]
# marginals of rows
__all__ += ["FeatureRows", "HadamardMarginals", "MarginalAnswers", "marginal_shares"]
# words put together from fragments
__all__ += ["FragmentReports", "FragmentSearch", "HashedWords", "puzzle"]
# marginals from views
__all__ += ["ViewAnswers", "Views", "view_shares"]
# marginals from whole rows
__all__ += ["RowAnswers", "WholeRows", "whole_rows"]
# sketches of any keys
__all__ += ["AnyKeys", "Bloom", "CountMeanSketch", "CountSketch", "SketchAnswers", "SketchRandomiser", "sketched"]
# streams, applications
__all__ += ["clip", "iterative_bayes", "norm_sub", "read_stream", "simplex"]
__all__ += ["BitFlip", "BloomCounts", "Decoded", "Device", "OneBitMean", "Rappor", "RoundingDevice", "joint_shares"]
__all__ += ["Replicas", "noised", "update_event"]
# applications of section 2.5: text, places, graphs, training, recommendations
__all__ += ["TagWordModel", "TaggedTexts", "Triple", "next_words", "sampled_triple"]
__all__ += ["PlanarLaplace", "SafeZone", "Taxonomy", "UniformGrid", "ZoneAnswers", "grid_shares", "zone_protocol"]
__all__ += ["GraphModel", "NoisyAdjacency", "degree_event", "edge_event", "generated", "noisy_adjacency", "noisy_degrees"]
__all__ += ["GradientRound", "LeastSquares", "Trained", "least_squares_moments", "moments", "partition_users", "trained"]
__all__ += ["ItemProfiles", "factorised"]
