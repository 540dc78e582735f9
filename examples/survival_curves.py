"""Survival of two arms of a made-up trial: one noisy table, two curves with intervals, and a log-rank test.

    python examples/survival_curves.py

writes survival_curves.png. The patients are made up, so the true curves can be drawn beside the published ones.
"""

import numpy as np

from tacit.applications.health import KaplanMeier
from tacit.pictures import BLUE, GREY, RED, canvas, dress, finish

rng = np.random.default_rng(2026)
patients = 2_000
arm = rng.choice(["drug", "placebo"], patients)
lived = rng.exponential(np.where(arm == "drug", 70.0, 45.0))  # months
followed = rng.uniform(0, 120, patients)

model = KaplanMeier(epsilon=1, bins=range(0, 121, 4), groups=["drug", "placebo"])
print("before anything is spent:", model.plan().event)
mean, largest = model.plan().foretold(patients)
print(f"a curve will be off by {mean:.3f} on average and {largest:.3f} at its worst")
model.fit(np.minimum(lived, followed), lived <= followed, arm)

figure, ax = canvas(None, "survival_curves.png")
for name, colour, life in (("drug", BLUE, 70.0), ("placebo", RED, 45.0)):
    curve = model.curves_[name]
    curve.plot(ax=ax, label=f"{name}, published for epsilon 1", color=colour)
    ax.plot(curve.timeline, np.exp(-curve.timeline / life), color=GREY, linestyle=":", label=None)
    print(f"{name}: median {curve.median_survival_time_:g} months, mean of the first ten years {curve.restricted_mean():.1f}")
dress(ax, "Survival of two arms, with 95% bands (dotted: the truth)", "months", "share alive")
finish(figure, "survival_curves.png")
print(model.log_rank())
