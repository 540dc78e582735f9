"""Dominating pairs: the two output distributions that are as hard to tell apart as a mechanism's worst case."""
