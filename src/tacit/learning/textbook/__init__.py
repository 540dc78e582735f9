"""The textbook's private convex optimisation: one algorithm a module, and the sets and rates they share."""
