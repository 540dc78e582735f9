"""Known failures 26, 27, 29, 30 and 33, seen from the attacker's side: what can be had from a ledger that it does not know of.

Each attack is a small program that takes a ledger. It is run on a ledger with the mistake, where it must gain something, and on ours, where
it must gain nothing. Crashes (26), races (28) and forgery live in `tests/ledger`, where real processes are killed.
"""

from __future__ import annotations

import logging
import math
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting import NonPrivate, ParameterError, PureDP, Repeated
from tacit.calculus import AddRemove, Integers, Measurement, Rows, Space
from tacit.ledger import Budget, BudgetExceeded, DataIdentity, Filter, Ledger, LedgerError, PriceError, ReleaseFailed, queryable

PRICE = Fraction(1, 4)
ROWS = Space(Rows(Integers()), AddRemove())


class Refused(Exception):
    """What a ledger with a mistake says when its budget is used up."""


def question(function: Callable[[Any], Any]) -> Measurement:
    return Measurement(ROWS, function, lambda d: PureDP(PRICE * d), "question", proof="for these tests")


@dataclass
class Seen:
    """A question that writes down how often the data was looked at, and by which rows."""

    answers: list[Any] = field(default_factory=list)

    def asking(self, function: Callable[[Any], Any]) -> Measurement:
        def run(rows: Any) -> Any:
            self.answers.append(rows)
            return function(rows)

        return question(run)


@dataclass
class Naive:
    """A ledger in memory, in floats, with one of the known mistakes."""

    mistake: str
    budget: float = 1.0
    spent: float = 0.0

    def ask(self, measurement: Measurement, data: Any) -> Any:
        price = float(measurement.event(1).epsilon)  # type: ignore[attr-defined]
        if self.spent + price > self.budget:
            raise Refused
        if self.mistake == "debit after the answer":
            answer = measurement.release(data).value
            self.spent += price
            return answer
        self.spent += price
        tries = 5 if self.mistake == "retry until it is a number" else 1
        for _ in range(tries):
            try:
                answer = measurement.release(data).value
            except Exception:
                if self.mistake == "refund on failure":
                    self.spent -= price
                raise
            if not math.isnan(answer):
                break
        return answer

    def total(self) -> Fraction:
        return Fraction(self.spent)


@dataclass
class Ours:
    """The same face for an account of the book."""

    ledger: Ledger
    name: str = "visits"

    def ask(self, measurement: Measurement, data: Any) -> Any:
        account = self.ledger.account(self.name, Budget(epsilon=1))
        try:
            return account.release(measurement, data).value
        except BudgetExceeded:
            raise Refused from None

    def total(self) -> Fraction:
        return self.ledger.account(self.name, Budget(epsilon=1)).spent()["pure"]


@pytest.fixture
def ledger(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        yield book


Attack = Callable[[Any], bool]  # whether something was had for nothing


# --- 26 and 27: answers that nobody paid for ----------------------------------------------------------------------------------------------


def asks_for_a_bit_by_raising(book: Any) -> bool:
    """A question that fails if a certain row is there. Failing is an answer; asked ten times it must cost ten times, or be refused."""
    seen = Seen()

    def fails_on_seven(rows: Any) -> int:
        if 7 in list(rows):
            raise ValueError("seven is there")
        return 0

    for _ in range(10):
        try:
            book.ask(seen.asking(fails_on_seven), [7])
        except (ValueError, ReleaseFailed):
            continue
        except Refused:
            break
    return bool(PRICE * len(seen.answers) > book.total())


def stops_before_the_debit(book: Any) -> bool:
    """An answer that leaves through the question itself, after which the process is gone: a debit that comes later never comes."""

    class Gone(BaseException):
        """Stands for the end of the process; `tests/ledger/test_crash.py` ends real ones."""

    leaked: list[int] = []

    def answers_and_dies(rows: Any) -> int:
        leaked.append(len(rows))
        raise Gone

    for _ in range(10):
        try:
            book.ask(question(answers_and_dies), [1, 2, 3])
        except (Gone, ReleaseFailed):  # ours lets not even the kind of an error out
            continue
        except Refused:
            break
    return bool(PRICE * len(leaked) > book.total())


def waits_for_a_number(book: Any) -> bool:
    """A question that is rarely a number: whoever repeats it until it is one looks at the data more often than is booked."""
    seen = Seen()
    try:
        while True:
            book.ask(seen.asking(lambda rows: math.nan), [1])
    except Refused:
        return bool(PRICE * len(seen.answers) > book.total())


CASES = {
    "debit after the answer": stops_before_the_debit,
    "refund on failure": asks_for_a_bit_by_raising,
    "retry until it is a number": waits_for_a_number,
}


@pytest.mark.parametrize("mistake", CASES)
def test_what_is_had_from_a_ledger_with_a_mistake_is_not_had_from_ours(mistake: str, ledger: Ledger) -> None:
    assert CASES[mistake](Naive(mistake))
    assert not CASES[mistake](Naive("none"))  # the attack finds the mistake and not something else
    assert not CASES[mistake](Ours(ledger))
    assert ledger.verify().ok


@pytest.mark.parametrize("attack", CASES.values(), ids=list(CASES))
def test_the_book_counts_every_look_at_the_data(attack: Attack, ledger: Ledger) -> None:
    """Four looks at a quarter each, whatever became of the answers, and not a fifth."""
    attack(Ours(ledger))
    assert ledger.account("visits").spent()["pure"] == 1
    kinds = [entry["kind"] for entry in ledger.entries()]
    assert kinds.count("reserve") == 4


# --- 29: arithmetic -----------------------------------------------------------------------------------------------------------------------


def spends(charges: list[Fraction], admit: Callable[[Fraction], bool]) -> Fraction:
    """The exact total of what a ledger admits."""
    return sum((charge for charge in charges if admit(charge)), Fraction(0))


class InFloats:
    """The mutant: sums and comparisons in double precision."""

    def __init__(self, budget: float) -> None:
        self.budget, self.spent = budget, 0.0

    def admit(self, charge: Fraction) -> bool:
        if self.spent + float(charge) > self.budget:
            return False
        self.spent += float(charge)
        return True


class InFractions:
    """Ours, in memory: the filter that every account applies."""

    def __init__(self, budget: Fraction) -> None:
        self.filter = Filter(Budget(epsilon=budget))

    def admit(self, charge: Fraction) -> bool:
        if not self.filter.fits({"pure": charge}):
            return False
        self.filter = self.filter.admit({"pure": charge})
        return True


@pytest.mark.parametrize(
    "charges",
    [
        [Fraction(1, 10)] * 10 + [Fraction(1, 10**17)] * 100,
        [Fraction(1)] + [Fraction("5e-324")] * 1000,
        [Fraction(1, 2), Fraction(1, 2)] + [Fraction(1, 2**60)] * 100,
    ],
    ids=["ten tenths", "subnormal", "below the last bit"],
)
def test_float_sums_admit_more_than_the_budget_and_ours_do_not(charges: list[Fraction]) -> None:
    assert spends(charges, InFloats(1.0).admit) > 1
    assert spends(charges, InFractions(Fraction(1)).admit) == 1


def test_float_sums_refuse_what_fits_and_ours_do_not() -> None:
    charges = [Fraction(4, 10), Fraction(2, 10)]
    assert spends(charges, InFloats(0.6).admit) < Fraction(6, 10)
    assert spends(charges, InFractions(Fraction(6, 10)).admit) == Fraction(6, 10)


def test_ten_million_tiny_spends_are_the_exact_sum(ledger: Ledger) -> None:
    tiny, times = Fraction(1, 3 * 10**7), 10**7
    account = ledger.account("visits", Budget(epsilon="1/3"))
    for _ in range(4):
        account.spend(Repeated(PureDP(tiny), times // 4))
    assert account.spent()["pure"] == Fraction(1, 3) and account.left() == {"pure": 0}
    with pytest.raises(BudgetExceeded):
        account.spend(PureDP(tiny))


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -0.1], ids=str)
def test_a_price_that_is_no_number_reaches_no_entry(epsilon: float, ledger: Ledger) -> None:
    """NaN compares false with every budget: the mutant lets it pass and poisons the total."""
    mutant = InFloats(1.0)
    mutant.spent += math.nan
    assert mutant.admit(Fraction(10**6)), "a total of NaN refuses nothing"
    account = ledger.account("visits", Budget(epsilon=1))
    head = ledger.head()
    with pytest.raises(ParameterError):
        account.spend(PureDP(epsilon))
    with pytest.raises((PriceError, BudgetExceeded)):
        account.spend(NonPrivate())
    with pytest.raises(LedgerError):
        Budget(epsilon=epsilon)
    assert ledger.head() == head


# --- 30: a fresh budget -------------------------------------------------------------------------------------------------------------------


class ByName:
    """The mutant: a budget for each name, in each session."""

    def __init__(self) -> None:
        self.spent: dict[str, Fraction] = {}

    def spend(self, name: str, data: object, charge: Fraction) -> bool:
        before = self.spent.get(name, Fraction(0))
        if before + charge > 1:
            return False
        self.spent[name] = before + charge
        return True


def had(spend: Callable[[str, object, Fraction], bool], names: list[tuple[str, object]]) -> Fraction:
    """The exact total that an analyst gets out of one data set under several names."""
    return sum((Fraction(1, 2) for name, data in names for _ in range(3) if spend(name, data, Fraction(1, 2))), Fraction(0))


def test_renaming_copying_and_reopening_buy_nothing(tmp_path: Path) -> None:
    original, copied = tmp_path / "visits.csv", tmp_path / "another name.csv"
    original.write_text("id,age\n1,31\n", encoding="utf-8")
    shutil.copy(original, copied)
    names: list[tuple[str, object]] = [("visits", original), ("VISITS", original), ("a view", copied), ("session 2", copied)]
    url = f"sqlite:///{tmp_path / 'book.db'}"

    def by_identity(name: str, data: object, charge: Fraction) -> bool:
        with Ledger.open(url) as book:  # a new session every time
            account = book.account(name, Budget(epsilon=1), data=DataIdentity.file(str(data)))
            try:
                account.spend(PureDP(charge))
            except BudgetExceeded:
                return False
            return True

    assert had(ByName().spend, names) == 4
    assert had(by_identity, names) == 1


# --- 33: what the outside gets to see -----------------------------------------------------------------------------------------------------

CANARY = 918_273_645


def fails_loudly(rows: Any) -> int:
    logging.getLogger("somebody").debug("nothing of the rows is logged here")
    raise KeyError(f"unexpected value {next(iter(rows))}")


def shown(error: BaseException) -> str:
    """Everything a handler, a log or a terminal would print of an error, causes included."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)


def test_an_error_on_the_data_shows_nothing_of_it(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyError) as mutant:
        question(fails_loudly).release([CANARY])
    assert str(CANARY) in shown(mutant.value), "the mutant: the library's own text is handed on"
    account = ledger.account("visits", Budget(epsilon=1))
    data = queryable([CANARY], ROWS, Budget(epsilon=1))
    texts = []
    with caplog.at_level(logging.DEBUG):
        for ask in (lambda: account.release(question(fails_loudly), [CANARY]), lambda: data.ask(question(fails_loudly))):
            with pytest.raises(ReleaseFailed) as failure:
                ask()
            assert failure.value.__cause__ is None and failure.value.__context__ is None
            texts.append(shown(failure.value))
    printed = capsys.readouterr()
    everything = "".join([*texts, caplog.text, printed.out, printed.err, str(list(ledger.entries()))])
    assert str(CANARY) not in everything and "unexpected value" not in everything
    assert account.spent()["pure"] == PRICE == data.spent["pure"]


def test_the_text_of_a_failure_is_the_same_for_every_reason(ledger: Ledger) -> None:
    account = ledger.account("visits", Budget(epsilon=1))
    found = set()
    for row in (1, 2, 3):
        with pytest.raises(ReleaseFailed) as failure:
            account.release(question(fails_loudly if row < 3 else lambda rows: 1 // 0), [row])
        found.add("".join(letter for letter in str(failure.value) if not letter.isdigit()))  # but for the number of the entry
    assert len(found) == 1


def test_a_function_that_ends_the_process_is_a_failure_like_any_other(ledger: Ledger) -> None:
    """Whether the process ends is an answer, so SystemExit stops at the release and at the queryable; the price is booked."""

    def leaving(rows: Any) -> int:
        raise SystemExit(3)

    account = ledger.account("exits", Budget(epsilon=1))
    with pytest.raises(ReleaseFailed):
        account.release(question(leaving), [1, 2, 3])
    with pytest.raises(ReleaseFailed):
        queryable([1, 2, 3], ROWS, account).ask(question(leaving))
    assert account.spent()["pure"] == 2 * PRICE
