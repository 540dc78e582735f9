"""Leakage of channels: Bayes risk, capacity, estimators that learn from examples, and what they say about epsilon."""
