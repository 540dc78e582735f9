"""Tacit: publish from sensitive data under one budget, proved from above and attacked from below.

>>> import tacit
>>> tacit.__version__.count(".")
2
>>> tacit.Unit("patient_id", max_rows=12)
Unit(person='patient_id', max_rows=12)
"""

from tacit.lazy import lazily

__version__ = "0.1.0"
__all__ = ["__version__"]

#: `import tacit` itself stays light: these are loaded when first used.
__getattr__, __dir__ = lazily(
    __name__, {"accounting": ("Guarantee",), "ledger": ("Budget", "Ledger"), "tables": ("Session", "Unit", "auto")}
)
