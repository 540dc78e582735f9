"""What the fields' files are refused with: file, line, fault and fix, before anything is spent.

>>> str(FileRefused("study.fam", "5 fields where 6 are expected", "separate fields by spaces or tabs", line=7))
'study.fam, line 7: 5 fields where 6 are expected; separate fields by spaces or tabs'
"""

from __future__ import annotations

from os import PathLike, fspath

from tacit.errors import ParameterError


class FileRefused(ParameterError):
    """A file that does not parse. It quotes no value: a line's number and what is expected there."""

    def __init__(self, path: str | PathLike[str], fault: str, fix: str, *, line: int | None = None) -> None:
        self.path, self.line = fspath(path), line
        where = self.path if line is None else f"{self.path}, line {line}"
        super().__init__(f"{where}: {fault}; {fix}")
