"""Plan a DP-SGD run: choose the noise for a budget, see what it buys, and watch the budget go. Writes dp_sgd_budget.png.

60,000 records, Poisson batches of 256 on average, 30 epochs, epsilon = 2 at delta = 1e-6.

    python examples/dp_sgd_budget.py
"""

from fractions import Fraction

from tacit.accounting import Event, Gaussian, Poisson, Repeated, Sampled, account, calibrate, plot_training, to_json

records, batch, epochs = 60_000, 256, 30
epsilon, delta = 2.0, 1e-6
steps = epochs * records // batch


def training(noise: float, steps: int = steps) -> Event:
    """What touches the data: so many noisy sums over random batches."""
    return Repeated(Sampled(Poisson(Fraction(batch, records)), Gaussian(noise_multiplier=noise)), steps)


# The least noise that keeps the whole run within the budget; the answer never exceeds it.
noise = calibrate(training, epsilon=epsilon, delta=delta)
cost = account(training(noise))
print(f"noise multiplier {noise:.6f} for {steps} steps")
print(f"spends epsilon {cost.epsilon(delta).upper:.9f} at delta {delta:g}")

# With a little more noise, how much longer could it train?
more = 1.1 * noise
longest = calibrate(lambda n: training(more, int(n)), epsilon=epsilon, delta=delta, integer=True, start=steps)
print(f"with 10 % more noise: {int(longest)} steps, {longest / steps:.2f} times as many")

# What it means for one person in the data.
print(f"best membership attack at 1 % false positives: {100 * cost.tpr(0.01).upper:.2f} % true positives")

# The event is the price: keep it, not the epsilon.
print(to_json(training(noise)))

plot_training(lambda n: training(noise, n), steps, delta, target=epsilon, path="dp_sgd_budget.png")
print("wrote dp_sgd_budget.png")
