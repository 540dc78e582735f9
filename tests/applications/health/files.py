"""Small PLINK and VCF files for tests, written byte by byte from the formats' descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: PLINK's two bits for 2, 1 and 0 copies of A1, and for a missing genotype.
BITS = {2: 0b00, 1: 0b10, 0: 0b11, -1: 0b01}


def write_plink(stem: Path, counts: np.ndarray, status: Sequence[int], names: Sequence[str] = ()) -> Path:
    """People by variants as .bed, .bim and .fam; -1 is missing."""
    people, variants = counts.shape
    listed = names or [f"snp{i + 1}" for i in range(variants)]
    stem.with_suffix(".fam").write_text("".join(f"f{i} p{i} 0 0 0 {s}\n" for i, s in enumerate(status)))
    stem.with_suffix(".bim").write_text("".join(f"1 {name} 0 {1000 + i} A G\n" for i, name in enumerate(listed)))
    codes = np.vectorize(BITS.get)(counts).astype(np.uint8)
    padded = np.zeros((-(-people // 4) * 4, variants), dtype=np.uint8)
    padded[:people] = codes
    packed = sum(padded[i::4] << (2 * i) for i in range(4)).astype(np.uint8)
    stem.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + packed.T.tobytes())
    return stem.with_suffix(".bed")


def write_vcf(path: Path, counts: np.ndarray) -> Path:
    """People by variants as VCF text; -1 is missing."""
    people, variants = counts.shape
    calls = {0: "0/0", 1: "0/1", 2: "1/1", -1: "./."}
    lines = ["##fileformat=VCFv4.2", "##contig=<ID=1>", '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">']
    lines.append("\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *(f"p{i}" for i in range(people))]))
    for j in range(variants):
        row = [calls[int(c)] for c in counts[:, j]]
        lines.append("\t".join(["1", str(1000 + j), f"rs{j + 1}", "A", "T", ".", ".", ".", "GT", *row]))
    path.write_text("\n".join(lines) + "\n")
    return path
