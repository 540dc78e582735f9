"""The composition theorems side by side: the book's Figure 3.1, with the exact compositions beside them.

k uses of a 0.1-DP Laplace mechanism, epsilon at delta = 1e-6. Writes composition_theorems.png.

    python examples/composition_theorems.py
"""

from tacit.accounting import laplace_and_gaussian

figure = laplace_and_gaussian(counts=[1, 10, 20, 30, 50, 100, 200, 500, 1000], epsilon=0.1, delta=1e-6)
print(figure.to_text())

# What a better theorem is worth: how many uses of the mechanism does each allow within epsilon = 5?
print()
for curve in figure.curves:
    allowed = max(k for k, epsilon in zip(figure.counts, curve.epsilons, strict=True) if epsilon is not None and epsilon <= 5)
    print(f"{curve.label:>24}: at least {allowed} uses within epsilon = 5")

figure.plot("composition_theorems.png")
print("\nwrote composition_theorems.png")
