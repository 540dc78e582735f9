"""The sections that the theory map must have: read from the headings of the study notes, and kept in `tests/theory_sections.json`.

The notes themselves are not part of the repository; whoever has them runs `python tools/theory_sections.py FOLDER` when they change.
Every numbered heading is a section. Its label is that of the map: chapter and section of the textbook with a B before them, parts of
chapter 12 to 14 by their letter (B12.A4.2), the chapter on accounting by its own numbers.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / "tests" / "theory_sections.json"
_NUMBERED = re.compile(r"^#{1,4} +(?:s?)((?:[A-F])?\d+(?:\.\d+)*[a-z]?)[ .:/]+(.*)")
_PARTS = {"A": "12", "B": "13", "C": "14"}


def label(file: str, number: str) -> str | None:
    """The label of a heading's number in the map; None for chapters as a whole and for lists of the notes' own."""
    if file.startswith("02"):
        return number if "." in number else None
    if number[0] in _PARTS:
        return f"B{_PARTS[number[0]]}.{number}"
    if number[0].isalpha() or "." not in number or number.startswith("0"):
        return None
    return f"B{number}"


def sections(folder: Path) -> list[dict[str, str]]:
    """Every numbered heading of the notes on the sources, in order."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("0[1-7]-*.md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            match = _NUMBERED.match(line)
            cited = re.search(r"\(s(2(?:\.\d+)+)", line)  # notes on chapter 2 have numbers of their own, and the book's in brackets
            number = cited.group(1) if match and cited and match.group(1).startswith("2.") else match.group(1) if match else ""
            if match and (name := label(path.name, number)) is not None:
                title = re.split(r"[\[(:;]", match.group(2))[0].strip(" .-")
                found.setdefault(name, title[:70])
        if path.name.startswith("02"):
            for line in path.read_text(encoding="utf-8").splitlines():
                for number in re.findall(r"(?:^|\s)([1-8]\.\d+) \*\*", line[:8]):
                    found.setdefault(number, "")
    return [{"section": name, "title": title} for name, title in found.items()]


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(__doc__)
        return 2
    LIST.write_text(json.dumps(sections(Path(sys.argv[1])), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
