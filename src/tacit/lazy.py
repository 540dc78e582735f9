"""Rooms that load a module when one of its names is first used.

Start-up time matters: a question about a table needs few of the mechanisms, and most others load scipy. A
lazy package lists its modules and their names in a table and takes its `__getattr__` and `__dir__` from here.
Imports under `TYPE_CHECKING` tell the type checker what the names are, and `__all__` lists them as usual.

>>> import tacit.calculus
>>> "clamp" in dir(tacit.calculus), tacit.calculus.clamp.__module__
(True, 'tacit.calculus.rows')
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def lazily(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names live in the modules `homes` (module -> names).

    A module may also carry the name of what it holds, as `laplace` in `mechanisms/laplace.py`: the package's
    attribute is then the function, whichever is imported first.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    room = sys.modules[package]

    def find(name: str) -> Any:  # the attributes of a module have no common type
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(room, name, found)
        return found

    class LazyRoom(ModuleType):
        """Importing a module sets it as an attribute of its package; it must not hide the name it holds."""

        def __setattr__(self, name: str, value: object) -> None:
            if not (isinstance(value, ModuleType) and name in home_of):
                super().__setattr__(name, value)

    room.__class__ = LazyRoom
    return find, lambda: sorted({*vars(room), *home_of})
