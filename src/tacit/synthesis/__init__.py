"""Synthetic tables: rows that are made up, from marginals that were measured once and paid for.

`junction_tree`, `inference` and `estimate` fit a graphical model to noisy marginals, in numpy alone.

>>> from tacit.synthesis.junction_tree import cells
>>> cells((2, 3, 4), [(0, 1), (1, 2)])
18
"""
