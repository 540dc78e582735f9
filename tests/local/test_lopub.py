"""Whole rows: the enumerated epsilon is the claim, marginals are unbiased with the stated deviation, the rate of split epsilon is told."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError, account
from tacit.local import (
    Collector,
    MarginalAnswers,
    Protocol,
    RowAnswers,
    ShareOfEpsilonWarning,
    WholeRows,
    as_batch,
    marginal_shares,
    means,
    to_batch,
    to_report,
    whole_rows,
)
from tacit.mechanisms import verify

SIZES = (2, 3, 2)
RNG = np.random.default_rng(8)
ROWS = np.stack([RNG.integers(0, each, 40_000) for each in SIZES], axis=1)
ROWS[:, 2] = np.where(RNG.random(40_000) < 0.8, ROWS[:, 0], ROWS[:, 2])


def quiet(sizes: Any, **more: Any) -> Protocol:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShareOfEpsilonWarning)
        return whole_rows(sizes, **more)


def plain(features: tuple[int, ...], rows: np.ndarray = ROWS) -> np.ndarray:
    """The marginal by counting."""
    found = np.zeros([SIZES[each] for each in features])
    np.add.at(found, tuple(rows[:, each] for each in features), 1 / len(rows))
    return found


def test_the_enumerated_epsilon_is_the_claim() -> None:
    """All pairs of rows of two features; two features differ by the whole epsilon, one by its half."""
    randomiser = WholeRows(8, 1, (2, 3))
    found = verify(randomiser, itertools.permutations(range(8), 2), epsilon=1)
    assert found.epsilon.upper <= 1 + 1e-9 and found.epsilon.lower == pytest.approx(1, rel=1e-9)
    assert account(randomiser.event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(1, rel=1e-9)
    mutant = verify(WholeRows(8, 2, (2, 3)), itertools.permutations(range(8), 2), epsilon=1)  # each feature with the whole epsilon
    assert mutant.epsilon.lower > 1.9


def spread(features: tuple[int, ...], epsilon: float, n: int) -> np.ndarray:
    """The exact variance of each cell's estimate, by hand: the mean over the rows of products of squares, less the squared share."""
    found = np.zeros([SIZES[each] for each in features])
    truth = plain(features)
    for cell in np.ndindex(*found.shape):
        for row in np.ndindex(*found.shape):
            product = truth[row]
            for feature, mine, asked in zip(features, row, cell, strict=True):
                odds, size = math.exp(epsilon / len(SIZES)), SIZES[feature]
                p, q = odds / (odds + size - 1), 1 / (odds + size - 1)
                product *= (p if mine == asked else q) * ((1 - q) / (p - q)) ** 2 + (1 - (p if mine == asked else q)) * (q / (p - q)) ** 2
            found[cell] += product
    return (found - truth**2) / n


@pytest.mark.parametrize("features", [(0,), (0, 2), (2, 1)])
def test_marginals_are_unbiased_with_the_exact_variance(features: tuple[int, ...]) -> None:
    """300 surveys of 1,000 people: means within 5 deviations, the variance over all cells within 5 of its own deviations, of sqrt(2 / 300)
    at the most where cells go together; the stated deviation is at least the largest, by at most 15%."""
    protocol, surveys, people = quiet(SIZES, order=2, epsilon=6), 300, 1000
    chosen = RNG.integers(0, len(ROWS), (surveys, people))
    found, stated = [], []
    for own in chosen:
        answers = RowAnswers.of(Collector(protocol).ingest([to_batch(protocol, ROWS[own])]))
        table, deviation = answers.marginal(features)
        found.append(table)
        stated.append(deviation)
    cells, predicted = np.array(found), spread(features, 6, people)
    assert (np.abs(cells.mean(axis=0) - plain(features)) < 5 * np.sqrt(predicted / surveys)).all()
    assert abs(float((cells.var(axis=0, ddof=1) / predicted).mean()) - 1) < 5 * math.sqrt(2 / surveys)
    worst = math.sqrt(float((predicted + plain(features) ** 2 / people).max()))
    assert worst < np.mean(stated) * 1.02 and np.mean(stated) < 1.15 * worst
    assert np.mean(stated) ** 2 <= protocol.randomiser.variance(people) * (1 + 1e-9) or len(features) < 2


def test_likely_tables_are_shares_and_nearer() -> None:
    """Averaged over 40 surveys the likely table of a pair has the smaller squared error, and it finds who depends on whom."""
    protocol, raw, likely, trees = quiet(SIZES, order=2, epsilon=6), 0.0, 0.0, 0
    for _ in range(40):
        answers = RowAnswers.of(Collector(protocol).ingest([to_batch(protocol, ROWS[RNG.integers(0, len(ROWS), 4000)])]))
        table = answers.likely([0, 1])
        assert table.min() >= 0 and table.sum() == pytest.approx(1)
        raw += float(((answers.marginal([0, 1])[0] - plain((0, 1))) ** 2).sum())
        likely += float(((table - plain((0, 1))) ** 2).sum())
        trees += (0, 2) in answers.tree
    assert likely < raw and trees == 40


def test_made_up_rows_have_the_pairs_of_the_tree() -> None:
    protocol = quiet(SIZES, order=2, epsilon=12)
    answers = RowAnswers.of(Collector(protocol).ingest([to_batch(protocol, ROWS)]))
    made = answers.rows(20_000)
    assert made.shape == (20_000, 3) and made.dtype == np.int64
    for pair in answers.tree:
        assert np.abs(plain(pair, made) - answers.likely(pair)).max() < 6 * math.sqrt(0.25 / 20_000)
    assert np.abs(plain((0, 2), made) - plain((0, 2))).max() < 0.03
    assert np.abs(plain((0, 2), made) - np.outer(plain((0,)), plain((2,)))).max() > 0.1  # features drawn one by one would show this


def test_the_rate_of_split_epsilon() -> None:
    """At small epsilon one feature's report has variance (2 d / eps)^2 / 4, so a pair's grows as (d / eps)^4: twice the features, 16
    times the variance. The warning compares with one Hadamard coefficient each."""
    few, many = (WholeRows(2**d, 0.01, (2,) * d).variance(1) for d in (4, 8))
    assert many / few == pytest.approx(16, rel=1e-3)
    assert few == pytest.approx((4 / 0.01) ** 4, rel=1e-3)
    with pytest.warns(ShareOfEpsilonWarning, match=r"8 features.*times those of marginal_shares"):
        protocol = whole_rows([2] * 8, order=2, epsilon=4)
    measured = []
    rows = RNG.integers(0, 2, (20_000, 8))
    for one, answers in ((protocol, RowAnswers), (marginal_shares([2] * 8, order=2, epsilon=4), MarginalAnswers)):
        errors = []
        for _ in range(30):
            found = answers.of(Collector(one).ingest([to_batch(one, rows)]))  # type: ignore[attr-defined]
            truth = [np.bincount(2 * rows[:, a] + rows[:, b], minlength=4) / len(rows) for a, b in ((0, 1), (3, 7))]
            errors += [found.marginal(pair)[0].ravel() - t for pair, t in zip(((0, 1), (3, 7)), truth, strict=True)]
        measured.append(float(np.std(errors)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        whole_rows([2] * 8, order=2, epsilon=4)
    factor = float(str(told[0].message).split("up to ")[1].split(" ")[0])
    assert measured[0] / measured[1] == pytest.approx(factor, rel=0.25)  # the factor is of the worst cell


def test_nothing_a_person_holds_raises_and_no_bytes_do() -> None:
    protocol = quiet([2, 300, 3], order=2, epsilon=3)
    nasty = [None, (), (0, 1), (1, 299, 2), (2, 300, 3), (-1, 0, 0), ("a", None, 1.5), (True, 1, 1), b"abc", (10**30, 0, 0), float("nan")]
    sent = [to_report(protocol, value) for value in nasty]
    assert len({len(one) for one in sent}) == 1 and Collector(protocol).ingest(sent).n == len(nasty)
    fuzz = np.random.default_rng(3).integers(0, 256, (3000, protocol.randomiser.width)).astype(np.uint8)
    fuzz[:, [0, 2, 3]] %= 4
    reports, good = protocol.randomiser.from_bytes(fuzz)
    right = (fuzz[:, 0] < 2) & (fuzz[:, 1].astype(int) + 256 * fuzz[:, 2].astype(int) < 300) & (fuzz[:, 3] < 3)
    assert (good == right).all() and reports[good].max() < 300
    assert Protocol.from_json(protocol.to_json()) == protocol
    # codes that are no value count as 0, and any tree of shards is the same
    parts = [as_batch(protocol, protocol.randomiser.privatise(np.arange(1000) * 5 % protocol.size)) for _ in range(3)]
    one = Collector(protocol).ingest(parts)
    two = Collector(protocol).ingest(parts[2]).merge(Collector(protocol).ingest(parts[1]).merge(Collector(protocol).ingest(parts[0])))
    assert one.to_bytes() == two.to_bytes()


def test_questions_that_make_no_sense_are_refused() -> None:
    protocol = quiet([2, 2, 40], order=2, epsilon=1)
    found = RowAnswers.of(Collector(protocol).ingest([to_batch(protocol, [(0, 1, 0)] * 10)]))
    for features in ([], [0, 0], [7], [0, 1, 2], [-1]):
        with pytest.raises(ParameterError):
            found.marginal(features)
    for wrong in (lambda: whole_rows([2], order=2, epsilon=1), lambda: whole_rows([70_000, 2], order=1, epsilon=1),
                  lambda: whole_rows([2] * 60, order=20, epsilon=1), lambda: RowAnswers.of(Collector(protocol)),
                  lambda: RowAnswers.of(Collector(means(bounds=(0, 1), epsilon=1)))):  # fmt: skip
        with pytest.raises(ParameterError):
            wrong()
