"""Synthetic tables: rows that are made up, from marginals that were measured once and paid for.

Declare the columns, say how much privacy, and `synthesize` measures marginals with exact noise, fits a graphical model
and makes rows. Every step is admitted by a filter, the whole price is one event, and errors in the data stay unseen.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn, synthesize
>>> rows = {"sex": ["f", "m"] * 300, "smokes": [True, False, False] * 200}
>>> declared = [CategoryColumn("sex", ("f", "m")), CategoryColumn("smokes", (True, False))]
>>> with test_mode(1):
...     made = synthesize(rows, declared, epsilon=1, delta=1e-9)
...     made.sample(3).column_names
['sex', 'smokes']

The methods are `auto` (the default), `oneshot`, `aim`, `mst`, `mwem_pgm`, `privbayes`, `independent` and `histogram`,
by name or as records of their settings (`AIM(cap=...)`), `Direct` for a list of marginals, and with torch the
neural ones (`NEURAL`), for comparison.
`fit` and `NoisyMarginal` make a model of noisy marginals from elsewhere, `sampled` its rows.
"""

# Imports inside functions: pages, pictures and engines are needed only where they are asked for.

from tacit.synthesis.aim import AIM
from tacit.synthesis.auto import Auto, as_good_alone
from tacit.synthesis.bins import BoughtCategories, BoughtDates, BoughtNumbers
from tacit.synthesis.blinded import blinded, judged, write_blinded
from tacit.synthesis.columns import CategoryColumn, DateColumn, NumberColumn
from tacit.synthesis.constraints import Constraint, Determines, Impossible, Ordered, Sums
from tacit.synthesis.direct import Direct
from tacit.synthesis.estimate import EstimationError, Model, NoisyMarginal, fit, merged
from tacit.synthesis.evaluate import Evaluation, evaluate
from tacit.synthesis.histogram import Histogram
from tacit.synthesis.in_engine import EnginePlan, from_session
from tacit.synthesis.in_engine import plan as engine_plan
from tacit.synthesis.independent import Independent
from tacit.synthesis.junction_tree import JunctionTree, cells, junction_tree
from tacit.synthesis.measure import Measuring, concentrated_budget, gaussian_budget
from tacit.synthesis.mst import MST
from tacit.synthesis.mwem_pgm import MwemPgm
from tacit.synthesis.neural import NEURAL, Neural, PateGan
from tacit.synthesis.oneshot import OneShot
from tacit.synthesis.paid_distance import PaidDistance, paid_distance
from tacit.synthesis.privbayes import PrivBayes
from tacit.synthesis.relational import CountColumn, Level, LevelModel, LevelTree, SyntheticTables, synthesize_tables
from tacit.synthesis.relational_engine import LevelsPlan, plan_tables, tables_from_session
from tacit.synthesis.sample import counted, sampled
from tacit.synthesis.synthesizer import METHODS, MarginalCell, Method, Synthesizer, synthesize
from tacit.synthesis.synthetic_rows import SyntheticRows
from tacit.synthesis.uncertainty import Combined, NoiseAware, noise_aware, rubin

# The interface and its columns.
__all__ = ["BoughtCategories", "BoughtDates", "BoughtNumbers", "CategoryColumn", "DateColumn", "MarginalCell", "NumberColumn"]
__all__ += ["EnginePlan", "Synthesizer", "SyntheticRows", "engine_plan", "from_session", "synthesize"]
# Tables that belong together.
__all__ += ["CountColumn", "Level", "LevelModel", "LevelTree", "LevelsPlan", "SyntheticTables", "plan_tables"]
__all__ += ["synthesize_tables", "tables_from_session"]
__all__ += ["Constraint", "Determines", "Impossible", "Ordered", "Sums"]
# How good a table is: for the curator, or paid for.
__all__ += ["Evaluation", "PaidDistance", "blinded", "evaluate", "judged", "paid_distance", "write_blinded"]
# Intervals that know of the noise.
__all__ += ["Combined", "NoiseAware", "noise_aware", "rubin"]
# Methods.
__all__ += ["AIM", "METHODS", "MST", "Auto", "Direct", "Histogram", "Independent", "Method", "MwemPgm", "OneShot"]
__all__ += ["NEURAL", "Neural", "PateGan", "PrivBayes", "as_good_alone"]
# What they are made of.
__all__ += ["EstimationError", "JunctionTree", "Measuring", "Model", "NoisyMarginal", "cells"]
__all__ += ["concentrated_budget", "counted", "fit", "gaussian_budget", "junction_tree", "merged", "sampled"]
