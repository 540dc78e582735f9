"""Tacit: publish from sensitive data under one budget, proved from above and attacked from below.

>>> import tacit
>>> tacit.__version__.count(".")
2
>>> tacit.Unit("patient_id", max_rows=12)
Unit(person='patient_id', max_rows=12)
"""

from typing import TYPE_CHECKING, Any

from tacit.lazy import lazily

if TYPE_CHECKING:  # what type checkers and completion see; at run time each name is loaded when it is first used
    from tacit.accounting import Guarantee
    from tacit.errors import TacitError
    from tacit.ledger import Budget, Ledger
    from tacit.tables import Session, Unit, auto

__version__ = "0.1.0"
__all__ = ["Budget", "Guarantee", "Ledger", "Session", "TacitError", "Unit", "__version__", "auto"]

#: `import tacit` itself stays light: these are loaded when first used.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "accounting": ("Guarantee",),
        "errors": ("TacitError",),
        "ledger": ("Budget", "Ledger"),
        "tables": ("Session", "Unit", "auto", "connect"),
    },
)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tacit` runs in a notebook: it adds the `%%tacit` cell."""
    from tacit.tables import register_magic

    register_magic(shell)
