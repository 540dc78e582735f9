"""Write the tables of the last full `make bench` into docs/comparison.md.

    .venv/bin/python tools/comparison.py [bench-results]

`benchmarks/all.py` keeps what every script printed, and in `run.json` the date, the commit and the machine.
This script copies them, as they are, between two marks of the page; the rest of the page is written by hand.
A run of some scripts only is refused, so that the page never mixes runs.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "comparison.md"
BEGIN = "<!-- The last full run: written by tools/comparison.py -->"
END = "<!-- End of the last full run -->"


def section(results: Path) -> str:
    """The part of the page between the marks."""
    run: dict[str, Any] = json.loads((results / "run.json").read_text(encoding="utf-8"))
    if not run["full"]:
        raise ValueError("the last run was of some benchmarks only; run all of them with: make bench")
    machine = f"{run['cores']} cores, {run['machine']}, Python {run['python']}"
    lines = [f"Run of {run['date']}, commit {run['commit']}; {machine}.", ""]
    lines += ["| benchmark | verdict | seconds |", "| --- | --- | --- |"]
    lines += [
        f"| [{name}](#{name}) | {of['ended']} | {of['seconds']:.0f} |" for name, of in run["scripts"].items()
    ]
    for name in run["scripts"]:
        printed = (results / f"{name}.txt").read_text(encoding="utf-8").rstrip().replace("```", "'''")
        lines += ["", f"### {name}", "", title(name), "", "```text", printed, "```"]
    return "\n".join(lines)


def title(name: str) -> str:
    """The sentence that opens a benchmark's script."""
    script = ROOT / "benchmarks" / f"{name}.py"
    opening = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) if script.exists() else None
    return (opening or name).partition("\n\n")[0].replace("\n", " ")


def replaced(page: str, text: str) -> str:
    """The page with the text between its marks.

    >>> replaced(f"above\\n{BEGIN}\\nold\\n{END}\\nbelow", "new").splitlines()[2]
    'new'
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks its marks: {BEGIN} and {END}")
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"


def main() -> int:
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bench-results"
    try:
        page = replaced(PAGE.read_text(encoding="utf-8"), section(results))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote the run in {results} into {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
