"""Genotypes from PLINK 1 files and VCF, a block of variants at a time.

A `Genotypes` tells how many people and variants a file has and hands out blocks of allele counts: 0, 1 or 2 copies.
A genotype that is missing or unknown counts as a public rule says, because a rule that looks at other people, such
as the mean, would let one person change another's value. Files that do not parse are refused before anything is
spent; how people and variants are listed decides that, and never a genotype. PLINK needs the extra `health` (bed-reader).

>>> import numpy as np
>>> study = Genotypes.of_array(np.array([[0, 2], [1, 1], [9, 0]]))
>>> study.people, study.variants, [block.tolist() for block in study.blocks(1)]
(3, 2, [[[0], [1], [0]], [[2], [1], [0]]])
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import PackageMissing
from tacit.applications.errors import FileRefused
from tacit.calculus import number_of
from tacit.errors import ParameterError
from tacit.parameters import count

#: The copies that a missing genotype counts as, by the name of the rule.
MISSING = {"none": 0, "one": 1, "two": 2}
#: Variants at a time.
BLOCK = 2_000
MAGIC = b"\x6c\x1b\x01"
CASE, CONTROL = 2, 1
#: A genotype that is missing, or that is none.
UNKNOWN = 3
#: Fields of a VCF line before those of people.
FIXED = 9
#: Columns of a table of calls.
CALLS = ("person", "chromosome", "position", "reference", "alternate")
#: Different fields whose calls are kept.
KEPT = 4_096


@dataclass(frozen=True, eq=False)
class Genotypes:
    """People by variants, read in blocks. `status` is 2 for a case, 1 for a control and 0 for neither, if the file has it."""

    people: int
    variants: int
    names: Sequence[str]
    read: Callable[[int], Iterator[NDArray[Any]]]
    status: NDArray[np.int64] | None = None
    missing: str = "none"

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ParameterError(f"missing must be {', '.join(MISSING)} (how many copies count), not {self.missing!r}")

    def blocks(self, size: int = BLOCK) -> Iterator[NDArray[np.int8]]:
        """Allele counts [people, variants of the block]; whatever is not 0, 1 or 2 counts as the rule says."""
        filling = np.int8(MISSING[self.missing])
        for block in self.read(count("size", size)):
            known = (block == 0) | (block == 1) | (block == 2)
            yield np.where(known, block, filling).astype(np.int8)

    @staticmethod
    def of_array(counts: ArrayLike, *, status: ArrayLike | None = None, names: Sequence[str] = (), missing: str = "none") -> Genotypes:
        """From a matrix [people, variants] that is in memory: an array, or a list of rows beside the names of its variants."""
        table = _matrix(counts, len(names) or None)
        groups = None if status is None else status_of(status, table.shape[0])
        listed = tuple(names) or tuple(f"snp{i + 1}" for i in range(table.shape[1]))
        if len(listed) != table.shape[1]:
            raise ParameterError("names must be as many as the variants")

        def read(size: int) -> Iterator[NDArray[Any]]:
            return (table[:, start : start + size] for start in range(0, table.shape[1], size))

        return Genotypes(table.shape[0], table.shape[1], listed, read, groups, missing)

    @staticmethod
    def plink(path: str | PathLike[str], *, missing: str = "none") -> Genotypes:
        """From PLINK 1 files, .bed, .bim and .fam side by side; counts are of allele A1, whose order is kept."""
        bed = Path(path).with_suffix(".bed")
        people, status = _fam(bed.with_suffix(".fam"))
        names = _bim(bed.with_suffix(".bim"))
        _check_bed(bed, people, len(names))
        try:
            from bed_reader import open_bed
        except ImportError:
            raise PackageMissing(code="package-missing", package="bed-reader", install="'tacit[health]'") from None

        def read(size: int) -> Iterator[NDArray[Any]]:
            with open_bed(bed, iid_count=people, sid_count=len(names), num_threads=1) as opened:
                for start in range(0, len(names), size):
                    yield opened.read(index=np.s_[:, start : start + size], dtype="int8")

        return Genotypes(people, len(names), names, read, status, missing)

    @staticmethod
    def vcf(path: str | PathLike[str], *, missing: str = "none") -> Genotypes:
        """From a VCF file, plain or compressed; counts are of the first alternate allele.

        The calls are read here, not by htslib, which stops at one person's call that is none. A haploid call counts
        twice, as PLINK stores it. A call of other than one or two alleles is unknown.
        """
        place = Path(path)
        people, names = _check_vcf(place)

        def read(size: int) -> Iterator[NDArray[Any]]:
            rows: list[NDArray[Any]] = []
            known: dict[tuple[int, int], _Seen] = {}
            with _opened_vcf(place) as opened:
                for line in opened:
                    if line.startswith("#") or not line.strip():
                        continue
                    rows.append(_calls(line, known))
                    if len(rows) == size:
                        yield np.array(rows).T
                        rows = []
            if rows:
                yield np.array(rows).T

        return Genotypes(people, len(names), names, read, None, missing)


def _matrix(counts: Any, width: int | None) -> NDArray[Any]:
    """People by variants. Of a list of rows each value is read by itself: what is no number, or a row of another length, is missing.

    Only the container can be refused. How many variants a list has is told by `names`, not by one person's row.
    """
    if isinstance(counts, list | tuple):
        if width is None:
            raise ParameterError("a list of rows does not say how many variants there are; give names=, or an array people by variants")
        read = [row if isinstance(row, list | tuple | np.ndarray) and len(row) == width else [None] * width for row in counts]
        return np.array([[number_of(value) for value in row] for row in read], dtype=np.float64).reshape(len(counts), width)
    table = np.asarray(counts)
    if table.ndim == 2 and table.dtype.kind == "O":
        return np.array([[number_of(value) for value in row] for row in table.tolist()], dtype=np.float64).reshape(table.shape)
    if table.ndim != 2 or table.dtype.kind not in "iufb":
        raise ParameterError("genotypes must be a matrix of numbers, people by variants")
    return table


def status_of(given: ArrayLike, people: int) -> NDArray[np.int64]:
    """Who is a case (2), a control (1) or neither, one value for each person."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (people,):
        raise ParameterError("status must have one number for each person: 2 for cases, 1 for controls")
    return np.where(found == CASE, CASE, np.where(found == CONTROL, CONTROL, 0)).astype(np.int64)


def write_calls(vcf: str | PathLike[str], out: str | PathLike[str]) -> int:
    """Write who carries what of a VCF file into a Parquet file, and return how many rows it has: for the curator, not for publication.

    A row is a person, chromosome, position (from 1), reference and alternate; a variant with several alternates has rows for
    each that a person carries. A call that is missing or none is no row. A service's beacon counts people in such a table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(vcf)
    _check_vcf(place)
    schema = pa.schema([(name, pa.int64() if name == "position" else pa.string()) for name in CALLS])
    rows, people = 0, list[str]()
    with pq.ParquetWriter(out, schema) as writer, _opened_vcf(place) as opened:
        for line in opened:
            parts = line.rstrip("\r\n").split("\t")
            if line.startswith("#CHROM"):
                people = parts[FIXED:]
            if line.startswith("#") or not line.strip():
                continue
            found = _carried(parts, people)
            rows += len(found)
            if found:
                writer.write_table(pa.table(list(map(pa.array, zip(*found, strict=True))), schema=schema))
    return rows


def _carried(parts: Sequence[str], people: Sequence[str]) -> list[tuple[str, str, int, str, str]]:
    """The rows of a line of VCF."""
    at, alternates = parts[FIXED - 1].split(":").index("GT"), parts[4].split(",")
    found = []
    for person, field in zip(people, parts[FIXED:], strict=True):
        values = field.split(":", at + 1)
        call = values[at] if at < len(values) else ""
        if copies(call, len(alternates)) == UNKNOWN:
            continue
        for allele in sorted({int(one) for one in call.replace("|", "/").split("/")} - {0}):
            found.append((person, parts[0].removeprefix("chr"), int(parts[1]), parts[3].upper(), alternates[allele - 1].upper()))
    return found


def copies(call: str, alternates: int) -> int:
    """Copies of the first alternate allele in a call of VCF; 3 where it is missing or no call.

    >>> [copies(call, 2) for call in ("0/0", "0|1", "1/1", "1/2", "2/2", "1", "./.", "0/7", "0/1/1", "foo")]
    [0, 1, 2, 1, 0, 2, 3, 3, 3, 3]
    """
    alleles = call.replace("|", "/").split("/")
    alleles = alleles * 2 if len(alleles) == 1 else alleles
    known = len(alleles) == 2 and all(one.isascii() and one.isdigit() and len(one) < 5 and int(one) <= alternates for one in alleles)
    return sum(int(one) == 1 for one in alleles) if known else UNKNOWN


class _Seen(dict[str, int]):
    """The copies of people's fields, of which the first thousands that differ are kept: most fields are like others."""

    def __init__(self, place: int, alternates: int) -> None:
        super().__init__()
        self.place, self.alternates = place, alternates

    def __missing__(self, field: str) -> int:
        values = field.split(":", self.place + 1)
        found = copies(values[self.place], self.alternates) if self.place < len(values) else UNKNOWN
        if len(self) < KEPT:
            self[field] = found
        return found


def _calls(line: str, known: dict[tuple[int, int], _Seen]) -> NDArray[np.int8]:
    """The copies of every person in a line of VCF. `known` is kept from line to line."""
    parts = line.rstrip("\r\n").split("\t")
    form = parts[FIXED - 1].split(":").index("GT"), parts[4].count(",") + 1
    seen = known.setdefault(form, _Seen(*form))
    return np.array([seen[field] for field in parts[FIXED:]], dtype=np.int8)


# --- files are checked before anything is spent ----------------------------------------------------------------


def _lines(path: Path, fix: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of every line that is not empty."""
    try:
        with open(path, encoding="utf-8") as opened:
            for number, line in enumerate(opened, 1):
                if line.strip():
                    yield number, line.split()
    except OSError:
        raise FileRefused(path, "it cannot be read", fix) from None
    except UnicodeDecodeError:
        raise FileRefused(path, "it is no text", fix) from None


def _fam(path: Path) -> tuple[int, NDArray[np.int64]]:
    status, seen = [], set[tuple[str, str]]()
    for number, fields in _lines(path, "PLINK writes .bed, .bim and .fam side by side; give the path of the .bed file"):
        if len(fields) != 6:
            raise FileRefused(path, "a person has other than 6 fields", "family, person, father, mother, sex, status", line=number)
        if (fields[0], fields[1]) in seen:
            raise FileRefused(path, "a person is listed twice, who would count twice", "keep one sample of each", line=number)
        seen.add((fields[0], fields[1]))
        status.append({"2": CASE, "1": CONTROL}.get(fields[5], 0))
    if not status:
        raise FileRefused(path, "it lists no people", "write the file again with PLINK --make-bed")
    return len(status), np.array(status, dtype=np.int64)


def _bim(path: Path) -> tuple[str, ...]:
    names, places = [], []
    for number, fields in _lines(path, "PLINK writes .bed, .bim and .fam side by side; give the path of the .bed file"):
        if len(fields) != 6:
            fix = "chromosome, name, centimorgans, position, A1, A2"
            raise FileRefused(path, "a variant has other than 6 fields", fix, line=number)
        names.append(fields[1])
        places.append((number, ":".join((fields[0], fields[3], fields[4], fields[5]))))
    if not names:
        raise FileRefused(path, "it lists no variants", "write the file again with PLINK --make-bed")
    return _told_apart(path, names, places)


def _told_apart(path: Path, names: Sequence[str], places: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """A name for each variant: its own, or its place and alleles where it has none or several have the same.

    `places` are the number of the line, and chromosome, position and alleles. A variant that is listed twice is refused.
    """
    often = Counter(names)
    found: dict[str, int] = {}
    for name, (number, place) in zip(names, places, strict=True):
        told = place if name == "." or often[name] > 1 else name
        if told in found:
            raise FileRefused(path, "a variant is listed twice", "keep one line of each, with PLINK --rm-dup", line=number)
        found[told] = number
    return tuple(found)


def _check_bed(path: Path, people: int, variants: int) -> None:
    try:
        with open(path, "rb") as opened:
            head = opened.read(3)
        size = path.stat().st_size
    except OSError:
        raise FileRefused(path, "it cannot be read", "give the path of a .bed file with .bim and .fam beside it") from None
    if head != MAGIC:
        raise FileRefused(path, "it does not start as a PLINK 1 .bed file by variants", "write it with PLINK --make-bed")
    if size != 3 + variants * -(-people // 4):
        raise FileRefused(path, "its size does not fit the .bim and .fam beside it", "take the three files from one run of PLINK")


def _opened_vcf(path: Path) -> IO[str]:
    """The lines of a VCF file, plain or compressed. What is no text is read all the same: it may be one person's field."""
    with open(path, "rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n")
    return open(path, encoding="utf-8", errors="replace", newline="\n")


def _check_vcf(path: Path) -> tuple[int, tuple[str, ...]]:
    """How many people, and the names of the variants; every line has as many fields as the header says."""
    names, places, fields = list[str](), list[tuple[int, str]](), 0
    try:
        with _opened_vcf(path) as opened:
            for number, line in enumerate(opened, 1):
                if number == 1 and not line.startswith("##fileformat=VCF"):
                    fix = "write it with bcftools view, which also converts BCF"
                    raise FileRefused(path, "it does not start with ##fileformat=VCF", fix, line=1)
                if line.startswith("##") or not line.strip():
                    continue
                parts = line.rstrip("\r\n").split("\t")
                if line.startswith("#"):
                    fields = _check_people(path, number, parts)
                    continue
                if not fields:
                    raise FileRefused(path, "a variant stands before the #CHROM line", "keep the header of the file", line=number)
                _check_variant(path, number, parts, fields)
                names.append(parts[2])
                places.append((number, ":".join((parts[0], parts[1], parts[3], parts[4]))))
    except (OSError, EOFError, zlib.error):
        raise FileRefused(path, "it cannot be read", "give the path of a .vcf or .vcf.gz file") from None
    if not names:
        raise FileRefused(path, "it holds no variants", "give a file with variants")
    return fields - FIXED, _told_apart(path, names, places)


def _check_people(path: Path, number: int, parts: Sequence[str]) -> int:
    """The number of fields that the #CHROM line announces."""
    if len(parts) <= FIXED or parts[0] != "#CHROM":
        raise FileRefused(path, "its header names no people", "keep the #CHROM line with the samples' columns", line=number)
    if len(set(parts[FIXED:])) != len(parts) - FIXED:
        raise FileRefused(path, "a person is listed twice, who would count twice", "keep one sample of each", line=number)
    return len(parts)


def _check_variant(path: Path, number: int, parts: Sequence[str], fields: int) -> None:
    """Refuse a line by its shape and by what is public of the variant; people's fields are not looked at."""
    if len(parts) != fields:
        raise FileRefused(path, "a variant has other fields than the header", "separate fields by tabs", line=number)
    if not (parts[1].isascii() and parts[1].isdigit()):
        raise FileRefused(path, "the position of a variant is no whole number", "write POS as a number", line=number)
    if "GT" not in parts[FIXED - 1].split(":"):
        raise FileRefused(path, "a variant has no genotypes", "keep GT in FORMAT; other lines can be left out", line=number)
