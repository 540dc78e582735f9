"""Domains: which values a step may meet. They are public, and they are enforced, not believed.

`enforce` is total: whatever it is given, it returns a member, one row at a time, so that a value outside its declared
domain changes no guarantee and raises no error that depends on the data. Numbers are clamped, what is not a number becomes the
domain's `default`. All of them are found here; they live in `number_domains`, `collection_domains` and `graph_domains`.

>>> Integers(0, 10).enforce([3, 99, -1]).tolist()
[3, 10, 0]
>>> Rows(Reals(0, 1)).contains(Rows(Reals(0, 0.5)))
True
"""

from tacit.calculus.collection_domains import Ball, Categories, Records, Rows, Vectors, table
from tacit.calculus.domain import Anything, Domain
from tacit.calculus.graph_domains import Graph, Graphs
from tacit.calculus.number_domains import WORD, Integers, Lattice, Reals, whole_bounds

__all__ = [
    "WORD",
    "Anything",
    "Ball",
    "Categories",
    "Domain",
    "Graph",
    "Graphs",
    "Integers",
    "Lattice",
    "Reals",
    "Records",
    "Rows",
    "Vectors",
    "table",
    "whole_bounds",
]
