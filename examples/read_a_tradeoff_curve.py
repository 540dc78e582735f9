"""Read a trade-off curve: one promise can hide very different protections. Writes tradeoff_promise.png and tradeoff_gaussian.png.

One promise, epsilon = 2 at delta = 1e-5, kept in two ways: by a mechanism that spends it all in one answer, and by Gaussian noise.

    python examples/read_a_tradeoff_curve.py
"""

from tacit.accounting import ApproxDP, Gaussian, account, calibrate, plot_tradeoff

epsilon, delta = 2.0, 1e-5
worst = account(ApproxDP(epsilon, delta))  # all that the promise says
noise = calibrate(lambda sigma: Gaussian(sigma), epsilon=epsilon, delta=delta)
gaussian = account(Gaussian(noise))
print(f"Gaussian noise multiplier for the same promise: {noise:.4f}")

# The best attack's true-positive rate at a false-positive rate: how many members it finds, how many outsiders it accuses.
print("false positives   promise alone   Gaussian noise")
for fpr in (0.0001, 0.001, 0.01, 0.1):
    print(f"{fpr:15g}   {worst.tpr(fpr).upper:13.5f}   {gaussian.tpr(fpr).upper:14.5f}")

# An attacker who starts from 50:50 is right so often; the promise alone allows far more than the noise does.
print(f"an even guess is right: {worst.accuracy(0.5).upper:.4f} by the promise alone, {gaussian.accuracy(0.5).upper:.4f} by the noise")

plot_tradeoff(worst, guarantee=(epsilon, delta), path="tradeoff_promise.png")
plot_tradeoff(gaussian, guarantee=(epsilon, delta), path="tradeoff_gaussian.png")
print("wrote tradeoff_promise.png and tradeoff_gaussian.png")
