"""Hooks of mkdocs: pages from elsewhere in the repository, and the API reference.

CONTRIBUTING.md, CHANGELOG.md and the page on benchmarks are pages of the site although they are not in docs/.
Links between them and docs/ are written for the repository and rewritten here for the site.

A page of the reference holds one line, `::: tacit.room` (or `::: tacit.room.field`). It becomes the room's docstring and then every name
of its `__all__`, grouped by the module that defines it. The code is read, not imported.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
GUESTS = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
#: Where a file of the repository is found on the site; the README's place is taken by the first page.
PLACES = {**GUESTS, "README.md": "index.md"}


def relinked(text: str, origin: str, page: str) -> str:
    """The text of the file `origin`, with its links as the page `page` of the site needs them."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link["path"]))
        place = PLACES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if place is None:
            return link[0]
        return f"]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{link['anchor'] or ''})"

    return re.sub(r"\]\((?P<path>(?!\w+:)[^)#\s]+\.(?:md|png))(?P<anchor>#[^)\s]*)?\)", moved, text)


def source_of(module: str) -> Path:
    """The file of a module, or the `__init__` of a package."""
    path = ROOT / "src" / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(source_of(module).read_text(encoding="utf-8"))


def public_names(room: str) -> list[str]:
    """What the room exports, as its `__all__` says."""
    found: list[str] = []
    for node in tree_of(room).body:
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__":
                found += [str(name) for name in ast.literal_eval(node.value)]
    if not found:
        raise ValueError(f"{room} has no __all__")
    return found


def defines(module: str, name: str) -> bool:
    """Whether a package imports the name from one of its modules, which may be called the same."""
    held = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.ImportFrom) and node.module != module]
    return any((alias.asname or alias.name) == name for node in held for alias in node.names)


def home_of(module: str, name: str) -> tuple[str, str]:
    """The module that defines a name, and its name there: imports are followed to the end."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, name
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tacit"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    if source_of(f"{node.module}.{alias.name}").exists() and not defines(node.module, alias.name):
                        return node.module, alias.name  # a module that is itself public
                    return home_of(node.module, alias.name)
    return module, name


def reference(room: str) -> str:
    """The page of a room: its docstring, then each public name under the heading of its module."""
    homes: dict[str, list[str]] = {}
    for name in sorted(public_names(room), key=str.lower):
        module, inner = home_of(room, name)
        homes.setdefault(module, []).append(inner)
    return "\n".join(lines_of(room, homes))


def lines_of(room: str, homes: dict[str, list[str]]) -> Iterator[str]:
    hidden = "members: false, show_root_heading: false, show_root_toc_entry: false"
    yield f"::: {room}\n    options: {{{hidden}}}\n"
    for module in sorted(homes):
        yield f"## {module.removeprefix(room).removeprefix('.').replace('_', ' ') or 'In the room itself'}\n"
        if module != room and (opening := ast.get_docstring(tree_of(module))):
            yield opening.partition("\n\n")[0].replace("\n", " ") + "\n"
        for name in homes[module]:
            alone = source_of(f"{module}.{name}").exists() and not defines(module, name)  # a module: its docstring
            yield f"::: {module}.{name}\n" + ("    options: {members: false}\n" if alone else "")
        for made in makes(module, homes[module]):
            yield f"::: {module}.{made}\n    options: {{members: false, heading_level: 4}}\n"


def makes(module: str, names: list[str]) -> list[str]:
    """The classes, not public themselves, that public functions return: they hold the Guarantee."""
    body = tree_of(module).body
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)} - set(names)
    returned = [
        ast.unparse(node.returns)
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name in names and node.returns
    ]
    return [name for name in dict.fromkeys(returned) if name in classes]


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # the rest of this file is tested where mkdocs is not installed

    for origin, page in GUESTS.items():
        files.append(File.generated(config, page, content=(ROOT / origin).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    origin = next((origin for origin, place in GUESTS.items() if place == name), f"docs/{name}")
    text = relinked(markdown, origin, name)
    return re.sub(r"^::: (tacit(?:\.\w+)+)$", lambda found: reference(found[1]), text, flags=re.MULTILINE)
