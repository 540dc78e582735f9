"""Genotypes from PLINK 1 files and VCF, a block of variants at a time.

A `Genotypes` tells how many people and variants a file has and hands out blocks of allele counts: 0, 1 or 2 copies.
A genotype that is missing or unknown counts as a public rule says, because a rule that looks at other people, such
as the mean, would let one person change another's value. Files that do not parse are refused before anything is
spent. Needs the extra `health` (bed-reader, cyvcf2).

>>> study = Genotypes.of_array([[0, 2], [1, 1], [9, 0]])
>>> study.people, study.variants, [block.tolist() for block in study.blocks(1)]
(3, 2, [[[0], [1], [0]], [[2], [1], [0]]])
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import PackageMissing
from tacit.applications.errors import FileRefused
from tacit.errors import ParameterError
from tacit.parameters import count

#: The copies that a missing genotype counts as, by the name of the rule.
MISSING = {"none": 0, "one": 1, "two": 2}
#: Variants at a time.
BLOCK = 2_000
MAGIC = b"\x6c\x1b\x01"
CASE, CONTROL = 2, 1


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
        """From a matrix [people, variants] that is in memory."""
        table = np.asarray(counts)
        if table.ndim != 2 or table.dtype.kind not in "iufb":
            raise ParameterError("genotypes must be a matrix of numbers, people by variants")
        groups = None if status is None else np.asarray(status, dtype=np.int64)
        if groups is not None and groups.shape != (table.shape[0],):
            raise ParameterError("status must have one value for each person: 2 for cases, 1 for controls")
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
        """From a VCF file, plain or compressed; counts are of the first alternate allele."""
        place = Path(path)
        people, names = _check_vcf(place)
        try:
            from cyvcf2 import VCF
        except ImportError:
            raise PackageMissing(code="package-missing", package="cyvcf2", install="'tacit[health]'") from None

        def read(size: int) -> Iterator[NDArray[Any]]:
            rows: list[NDArray[Any]] = []
            for variant in VCF(str(place), gts012=True):  # 0, 1 or 2 copies, 3 where unknown
                rows.append(np.asarray(variant.gt_types, dtype=np.int8))
                if len(rows) == size:
                    yield np.array(rows).T
                    rows = []
            if rows:
                yield np.array(rows).T

        return Genotypes(people, len(names), names, read, None, missing)


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
    names = []
    for number, fields in _lines(path, "PLINK writes .bed, .bim and .fam side by side; give the path of the .bed file"):
        if len(fields) != 6:
            fix = "chromosome, name, centimorgans, position, A1, A2"
            raise FileRefused(path, "a variant has other than 6 fields", fix, line=number)
        names.append(fields[1])
    if not names:
        raise FileRefused(path, "it lists no variants", "write the file again with PLINK --make-bed")
    return tuple(names)


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


def _check_vcf(path: Path) -> tuple[int, tuple[str, ...]]:
    """How many people, and the names of the variants; every line has as many fields as the header says."""
    try:
        with open(path, "rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        names, fields = [], 0
        with gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8") as opened:
            for number, line in enumerate(opened, 1):
                if number == 1 and not line.startswith("##fileformat=VCF"):
                    raise FileRefused(path, "it does not start with ##fileformat=VCF", "write it with bcftools view", line=1)
                if line.startswith("##") or not line.strip():
                    continue
                parts = line.rstrip("\r\n").split("\t")
                if line.startswith("#CHROM"):
                    fields = len(parts)
                    if fields < 10:
                        raise FileRefused(path, "its header names no people", "keep the samples' columns", line=number)
                elif not fields:
                    raise FileRefused(path, "a variant stands before the #CHROM line", "keep the header of the file", line=number)
                elif len(parts) != fields:
                    raise FileRefused(path, "a variant has other fields than the header", "separate fields by tabs", line=number)
                elif not parts[1].isdigit():
                    raise FileRefused(path, "the position of a variant is no whole number", "write POS as a number", line=number)
                else:
                    names.append(parts[2] if parts[2] != "." else f"{parts[0]}:{parts[1]}:{parts[3]}:{parts[4]}")
    except (OSError, EOFError):
        raise FileRefused(path, "it cannot be read", "give the path of a .vcf or .vcf.gz file") from None
    except UnicodeDecodeError:
        raise FileRefused(path, "it is no text", "convert BCF with bcftools view -Oz") from None
    if not names:
        raise FileRefused(path, "it holds no variants", "give a file with variants")
    return fields - 9, tuple(names)
