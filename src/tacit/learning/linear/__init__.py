"""Private linear models: losses, solvers, perturbation, error bars, and the estimators built from them."""
