"""Linear models: classifiers, regressors, their solvers, losses and error bars."""
