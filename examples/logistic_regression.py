"""Logistic regression in three scenarios: pure, full batch and Poisson batches. Writes logistic_regression.png.

Left: accuracy against epsilon for the three recipes of noisy gradient descent and for `LogisticRegression`, which puts the same budget into
few, preconditioned steps. Right: the noise on the mean gradient against the number of steps.

    python examples/logistic_regression.py [repetitions]    5 by default, 1 is quick
"""

import sys

import numpy as np

from tacit.learning import L2Ball, LogisticRegression, StochasticDescent
from tacit.noise import test_mode

repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
people, features, batch, steps, clip, delta = 2000, 5, 200, 50, 1.0, 1e-5
epsilons = [0.1, 0.3, 1.0, 3.0]
scenarios = ("pure", "full-batch", "poisson")

# Made-up data with a known answer: labels follow a logistic model, rows lie in the unit ball, and half of them are held out.
generator = np.random.default_rng(1)
rows = generator.normal(size=(2 * people, features))
rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
truth = np.array([6.0, -4.0, 2.0, 0.0, 0.0])
labels = np.where(generator.random(2 * people) < 1 / (1 + np.exp(-rows @ truth)), 1.0, -1.0)
x, y, held_x, held_y = rows[:people], labels[:people], rows[people:], labels[people:]


def gradients(theta: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The gradients of log(1 + exp(-y <x, theta>)) for the people chosen."""
    margin = y[chosen] * (x[chosen] @ theta)
    return -(y[chosen] / (1 + np.exp(margin)))[:, None] * x[chosen]


def plan(scenario: str, epsilon: float, steps: int = steps) -> StochasticDescent:
    """The recipe with the least noise; the first needs no delta."""
    slack = 0.0 if scenario == "pure" else delta
    return StochasticDescent.plan(scenario, size=people, batch=batch, steps=steps, clip=clip, epsilon=epsilon, delta=slack)


def accuracy(scenario: str, epsilon: float) -> float:
    found = []
    for seed in range(repetitions):
        with test_mode(seed):  # the picture repeats; leave this out for data of real people
            if scenario == "LogisticRegression":
                public = {"data_norm": 1.0, "classes": [-1.0, 1.0], "n_public": people}
                model = LogisticRegression(epsilon=epsilon, delta=delta, **public).fit(x, y)
                found.append(float(model.score(held_x, held_y)))
            else:
                theta = plan(scenario, epsilon).run(gradients, people, L2Ball(features, 10.0), length=4.0)
                found.append(float(np.mean(np.sign(held_x @ theta) == held_y)))
    return float(np.mean(found))


best = float(np.mean(np.sign(held_x @ truth) == held_y))
print(f"the true model is right {100 * best:.1f} % of the time")
curves = {name: [accuracy(name, epsilon) for epsilon in epsilons] for name in (*scenarios, "LogisticRegression")}
print(f"{'epsilon':>20}" + "".join(f"{epsilon:8g}" for epsilon in epsilons))
for name, values in curves.items():
    print(f"{name:>20}" + "".join(f"{value:8.3f}" for value in values))

lengths = [5, 20, 50, 100]
noise = {name: [plan(name, 1.0, t).noise for t in lengths] for name in scenarios}
print(f"{'steps':>20}" + "".join(f"{t:8d}" for t in lengths))
for name, values in noise.items():
    print(f"{name:>20}" + "".join(f"{value:8.4f}" for value in values))

import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, values in curves.items():
    left.semilogx(epsilons, values, "o-", label=name)
left.axhline(best, color="grey", linestyle=":", label="the true model")
left.set(xlabel="epsilon", ylabel="accuracy on held-out data", title=f"{steps} steps, {people} people, delta {delta:g}")
left.legend()
for name, values in noise.items():
    right.loglog(lengths, values, "o-", label=name)
right.set(xlabel="number of steps", ylabel="noise on the mean gradient", title="epsilon 1")
right.legend()
figure.savefig("logistic_regression.png", dpi=120)
print("wrote logistic_regression.png")
