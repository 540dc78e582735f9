"""Payments: booked before the block, concluded after it, and not a word of what went wrong inside."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.leaks import Leak, LeakAtTheEnd, leak, secret, shown, texts

from tacit import noise
from tacit.accounting import PureDP
from tacit.ledger import (
    Account,
    Budget,
    BudgetExceeded,
    Ledger,
    LedgerError,
    LedgerUnwritable,
    ReleaseFailed,
    paying,
)

PRICE = PureDP(0.25)
QUARTER = Fraction(1, 4)


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url) as found:
        yield found


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.account("visits", Budget(epsilon=1))


def last(account: Account) -> dict[str, Any]:
    return list(account.ledger.entries())[-1]


def test_it_books_before_the_block_and_commits_after(account: Account) -> None:
    with account.paying(PRICE, purpose="table", analyst="ann") as payment:
        assert last(account)["kind"] == "reserve" and account.spent()["pure"] == QUARTER
        assert payment.status == "open" and payment.entry == last(account)["seq"] and not payment.cached
    assert payment.status == last(account)["status"] == "done" and payment.private
    assert payment.receipt is not None and payment.receipt.charge["pure"] == QUARTER
    assert "entry 4, done" in repr(payment)


def test_a_refusal_is_raised_as_it_is_and_the_block_never_runs(account: Account) -> None:
    ran = []
    with pytest.raises(BudgetExceeded) as refusal, paying(account, PureDP(2)):
        ran.append(1)
    assert refusal.value.left == {"pure": 1} and ran == [] and account.spent()["pure"] == 0


def test_without_an_account_it_withholds_and_watches() -> None:
    with paying(None, PRICE) as payment, noise.test_mode(1):
        noise.uniform_integers(10)
    assert (
        not payment.private and payment.entry is None and payment.receipt is None and payment.answer is None
    )
    assert "no entry" in repr(payment)
    with pytest.raises(ReleaseFailed, match="What it cost stays spent") as failure, paying(None, PRICE):
        leak()
    assert shown(failure.value) == []


@pytest.mark.parametrize(
    "kind",
    [
        Leak,
        LeakAtTheEnd,
        SystemExit,
        GeneratorExit,
        RecursionError,
        MemoryError,
        BudgetExceeded,
        ReleaseFailed,
    ],
)
def test_whatever_goes_wrong_is_one_constant_error(account: Account, kind: type[BaseException]) -> None:
    def fails() -> None:
        raise (
            kind(secret(), account="", left={}, asked={}, fits="")
            if kind is BudgetExceeded
            else kind(secret())
        )

    with pytest.raises(ReleaseFailed) as failure, account.paying(PRICE) as payment:
        fails()
    assert type(failure.value) is ReleaseFailed and str(failure.value) == (
        "the computation failed after the data was touched. Entry 4 stays spent, and the reason is withheld, "
        "because it may depend on the data. Try made-up rows of the same shape before trying again, which costs again"
    )
    assert shown(failure.value) == []
    assert payment.status == last(account)["status"] == "failed" and account.spent()["pure"] == QUARTER


def test_the_probe_finds_what_is_handed_on() -> None:
    """The mutants: an error as it was, and one from a generator, whose caller keeps the original in a frame."""
    with pytest.raises(Leak) as raw:
        leak()
    assert "printed" in shown(raw.value) and secret() in texts(raw.value)

    @contextlib.contextmanager
    def generated() -> Iterator[None]:
        with paying(None, PRICE):
            yield

    with pytest.raises(ReleaseFailed) as failure, generated():
        leak()
    assert "the error itself, from a frame" in shown(failure.value)


def test_an_error_while_another_is_handled_links_to_neither(account: Account) -> None:
    try:
        leak()
    except Leak:
        with pytest.raises(ReleaseFailed) as failure, account.paying(PRICE):
            leak()
    assert shown(failure.value) == []
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ReleaseFailed))
        stack.enter_context(account.paying(PRICE))
        leak()


def test_the_keyboard_interrupts_and_takes_nothing_along(account: Account) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupt, account.paying(PRICE):
        raise KeyboardInterrupt(secret()) from Leak(secret())
    assert interrupt.value.args == () and shown(interrupt.value) == []
    assert last(account)["status"] == "failed"


def test_a_refusal_inside_is_withheld_like_the_rest(account: Account) -> None:
    """Inside, what is asked for can depend on the data, and a refusal names it."""
    asked = PureDP(47 * 100 + 11)
    with pytest.raises(ReleaseFailed) as failure, account.paying(PRICE), account.paying(asked):
        pass
    assert "4711" not in texts(failure.value)


def test_a_book_that_cannot_be_written_hides_nothing_and_shows_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise LedgerUnwritable("the disk is full")

    with pytest.raises(ReleaseFailed) as failure, account.paying(PRICE):
        monkeypatch.setattr(Account, "_conclude", full)
        leak()
    assert shown(failure.value) == [] and last(account)["kind"] == "reserve"
    with pytest.raises(LedgerUnwritable, match="full"), account.paying(PRICE):
        pass
    assert account.spent()["pure"] == 2 * QUARTER


def test_a_room_may_give_its_own_error_and_advice(account: Account) -> None:
    class Failed(RuntimeError):
        pass

    payment = paying(account, PRICE, error=Failed, advice="Look there")
    with pytest.raises(Failed, match=r"Entry 4 stays spent.*costs again\. Look there$") as failure, payment:
        leak()
    assert shown(failure.value) == []


# --- keeping answers -----------------------------------------------------------------------------------------


def test_a_caching_account_keeps_the_answer(ledger: Ledger) -> None:
    account = ledger.account("kept", Budget(epsilon=1), cache=True)
    with account.paying(PRICE, question="how many") as payment:
        payment.keep([1, 2])
    with account.paying(PRICE, question="how many") as again:
        assert again.cached and again.answer == [1, 2] and again.entry == payment.entry
    assert again.status == "done" and account.spent()["pure"] == QUARTER
    again.commit()  # nothing to conclude, and nothing concluded twice
    with account.paying(PRICE) as unasked:
        unasked.keep([3])
    with account.paying(PRICE, question="which") as odd:
        odd.keep(object())  # not JSON: not kept, and no error that depends on it
    assert not any(
        "answer" in entry
        for entry in ledger.entries()
        if entry.get("reservation") in (unasked.entry, odd.entry)
    )


def test_an_account_that_does_not_cache_keeps_nothing(account: Account) -> None:
    with account.paying(PRICE, question="how many") as payment:
        payment.keep(4711)
    assert "4711" not in str(list(account.ledger.entries()))


# --- several steps, several processes ------------------------------------------------------------------------


def test_a_payment_in_steps(account: Account) -> None:
    payment = account.paying(PRICE, run="r1").open()
    with payment.touching():
        pass
    assert payment.status == "open"
    with payment.touching() as same, noise.test_mode(1):
        noise.uniform_integers(2)
    assert same is payment and not payment.private
    payment.commit()
    assert last(account)["status"] == "done" and last(account)["private"] is False
    for wrong in (payment.commit, payment.fail, payment.open):
        with pytest.raises(LedgerError):
            wrong()


def test_a_failed_step_concludes_the_payment(account: Account) -> None:
    payment = account.paying(PRICE).open()
    with pytest.raises(ReleaseFailed) as failure, payment.touching():
        leak()
    assert shown(failure.value) == [] and payment.status == last(account)["status"] == "failed"


def test_a_failed_step_of_work_that_can_be_resumed_leaves_the_payment_open(account: Account) -> None:
    first = account.paying(PRICE, run="r1").open()
    with pytest.raises(ReleaseFailed) as failure, first.touching(resumable=True):
        leak()
    assert shown(failure.value) == [] and last(account)["kind"] == "reserve" and first.status == "open"

    class Failed(RuntimeError):
        pass

    (again,) = account.payments(run="r1", error=Failed, advice="Look there")
    with pytest.raises(Failed, match="Look there") as failure, again.touching(resumable=True):
        leak()
    assert shown(failure.value) == []
    again.noticed(False)
    again.noticed(True)
    again.commit()
    assert last(account)["status"] == "done" and last(account)["private"] is False


def test_data_is_not_touched_before_the_payment_is_opened(account: Account) -> None:
    with pytest.raises(LedgerError, match="not opened"), account.paying(PRICE).touching():
        raise AssertionError("never reached")


def test_the_payments_of_a_run_are_found_and_gone_on_with(account: Account, sqlite_url: str) -> None:
    other = account.ledger.account("other", Budget(epsilon=1))
    first = account.paying(PRICE, purpose="release", run="r1").open()
    second = account.paying(PRICE, purpose="release", run="r1", correction=True).open()
    second.fail()
    account.paying(PRICE, purpose="release", run="r2").open()
    other.paying(PRICE, run="r1").open()
    with Ledger.open(sqlite_url) as again:
        found = again.account("visits").payments(run="r1")
        assert [(one.entry, one.status) for one in found] == [(first.entry, "open"), (second.entry, "failed")]
        assert found[0].event == PRICE and found[0].receipt == first.receipt and found[0].private
        with found[0].touching():
            pass
        found[0].commit()
        assert again.account("visits").payments(run="r1")[0].status == "done"
        with pytest.raises(LedgerError):
            found[1].commit()
        assert again.verify().ok
    assert account.payments(run="nothing") == []
    for wrong in ("", None, 3):
        with pytest.raises(LedgerError, match="run must be"):
            account.payments(run=wrong)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="run must be a text"):
        account.paying(PRICE, run=3).open()


def test_a_run_that_an_old_book_names_in_the_purpose_is_found(account: Account) -> None:
    old = account.reserve(PRICE, purpose="Monthly (run 4f2a)").receipt.entry
    account.reserve(PRICE, purpose="Monthly (run 4f2a9)", run="r9")
    assert [one.entry for one in account.payments(run="4f2a")] == [old]


def test_an_entry_has_the_field_only_where_a_run_is_given(account: Account) -> None:
    with account.paying(PRICE):
        pass
    assert all("run" not in entry for entry in account.ledger.entries())
    with account.paying(PRICE, run="r1"):
        pass
    assert [entry["run"] for entry in account.ledger.entries() if "run" in entry] == ["r1"]


# --- warnings and logs ---------------------------------------------------------------------------------------


def chatter() -> None:
    warnings.warn(f"overflow at {secret()}", RuntimeWarning, stacklevel=1)
    logging.getLogger("solver").error("no convergence for %s", secret(), extra={"row": secret()})
    try:
        leak()
    except Leak:
        logging.getLogger("solver").exception("failed")


def test_warnings_and_logs_of_the_block_are_withheld(
    account: Account, caplog: pytest.LogCaptureFixture, capfd: Any, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with account.paying(PRICE):
            chatter()
        with pytest.raises(ReleaseFailed), account.paying(PRICE):
            chatter()
            leak()
        assert told == [] and caplog.records == []
        chatter()  # outside, everything is as it was
        assert len(told) == 1 and len(caplog.records) == 2 and secret() in caplog.text
    printed = capfd.readouterr()
    assert secret() not in printed.out + printed.err
    assert secret().encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_filters_can_be_copied_by_their_patterns() -> None:
    """scikit-learn does that for its workers: a copy says nothing outside a block, and hushes all of it inside."""
    with paying(None, PRICE):
        inside = warnings.filters[0][1].pattern  # type: ignore[union-attr]
    kept = next(entry for entry in warnings.filters if type(entry[1]).__name__ == "_WhileInside")
    assert re.match(inside, "overflow") and not re.match(kept[1].pattern, "overflow")  # type: ignore[arg-type, union-attr]


def test_a_warning_inside_is_no_error_even_where_warnings_are_errors() -> None:
    """Whether a warning is given can depend on a row, so whether the block fails must not depend on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with paying(None, PRICE):
            chatter()


def test_blocks_of_two_threads_that_overlap_undo_nothing_of_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The order in which `catch_warnings` goes wrong: A in, B in, A out, B warns, B out."""
    gates = {name: threading.Event() for name in ("a in", "b in", "a out", "b out")}

    def first() -> None:
        with paying(None, PRICE):
            gates["a in"].set()
            gates["b in"].wait(10)
        gates["a out"].set()

    def second() -> None:
        gates["a in"].wait(10)
        with paying(None, PRICE):
            gates["b in"].set()
            gates["a out"].wait(10)
            chatter()
        gates["b out"].set()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work) for work in (first, second)]
        for thread in threads:
            thread.start()
        gates["b in"].wait(10)
        warnings.warn("of a thread that pays for nothing", stacklevel=1)
        for thread in threads:
            thread.join(10)
        assert gates["b out"].is_set()
        warnings.warn("after all of them", stacklevel=1)
    assert [str(one.message) for one in told] == ["of a thread that pays for nothing", "after all of them"]
    assert caplog.records == []


def test_another_maker_of_log_records_is_kept() -> None:
    before = logging.getLogRecordFactory()
    seen = []

    def counting(*given: Any, **more: Any) -> logging.LogRecord:
        seen.append(given[0])
        return logging.LogRecord(*given, **more)

    try:
        logging.setLogRecordFactory(counting)
        with paying(None, PRICE):
            logging.getLogger("solver").error("inside")
        logging.getLogger("solver").error("outside")
    finally:
        logging.setLogRecordFactory(before)
    assert seen == ["solver"]
