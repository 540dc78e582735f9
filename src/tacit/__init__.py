"""Tacit: publish from sensitive data under one budget, proved from above and attacked from below.

>>> import tacit
>>> tacit.__version__.count(".")
2
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
