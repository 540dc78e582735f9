"""One base class: every exception that the package defines for its users is a TacitError."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import tacit

ROOT = Path(tacit.__file__).parent


def test_every_exception_has_one_base() -> None:
    seen = 0
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(word in text for word in ("Error)", "Error,", "Exception", "Refusal", "Refused")):
            continue  # what a class is made from is a word of the text
        names = [
            node.name
            for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            and any(ast.unparse(base).endswith(("Error", "Exception", "Refusal", "Refused")) for base in node.bases)
        ]  # fmt: skip
        for name in names:
            module = import_module(".".join(["tacit", *file.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"))
            kind = getattr(module, name)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                assert issubclass(kind, tacit.TacitError) or name in ("Declined",), f"{file}: {name}"
                seen += 1
    assert seen > 25  # `Declined` never leaves the accountant's engines
