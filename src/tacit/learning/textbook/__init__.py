"""The textbook's private convex optimisation, one algorithm a module."""
