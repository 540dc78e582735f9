"""Errors are seen on made-up rows only: never beside a book, never in production, and nothing there is called private."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tacit import noise
from tacit.accounting import NoOp, PureDP
from tacit.ledger import Budget, Ledger, LedgerError, ReleaseFailed, made_up, paying
from tacit.ledger.paying import showing
from tacit.ledger.store import Opened

ROW = "a row's value"


@pytest.fixture
def no_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own: other tests of this process open books."""
    monkeypatch.setattr(Opened, "here", False)


@pytest.mark.usefixtures("no_book")
def test_the_error_itself_is_shown_and_nothing_is_private() -> None:
    with made_up():
        with pytest.raises(KeyError, match=ROW), paying(None, PureDP(1)) as payment:
            raise KeyError(ROW)
        assert payment.status == "failed" and not payment.private
        with paying(None, PureDP(1)) as payment:
            noise.discrete_laplace(3)
        assert payment.status == "done" and not payment.private
    assert not showing()
    with pytest.raises(ReleaseFailed) as caught, paying(None, PureDP(1)):
        raise KeyError(ROW)
    assert ROW not in repr(caught.value)


@pytest.mark.usefixtures("no_book")
def test_warnings_and_log_records_come_through(caplog: pytest.LogCaptureFixture) -> None:
    with made_up(), pytest.warns(UserWarning, match=ROW), paying(None, NoOp()):
        warnings.warn(ROW, stacklevel=1)
        logging.getLogger("callback").warning(ROW)
    assert ROW in caplog.text


@pytest.mark.usefixtures("no_book")
def test_nothing_is_private_even_where_nothing_was_drawn() -> None:
    with made_up(), paying(None, NoOp()) as payment:
        pass
    assert not payment.private


@pytest.mark.usefixtures("no_book")
def test_no_book_is_opened_among_made_up_rows(tmp_path: Path) -> None:
    with made_up(), pytest.raises(LedgerError) as refused:
        Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    assert refused.value.code == "made-up-book" and not (tmp_path / "tacit.db").exists()


def test_a_process_that_opened_a_book_cannot_declare_rows_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opened, "here", False)
    Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}").close()
    with pytest.raises(LedgerError) as refused, made_up():
        pass
    assert refused.value.code == "made-up-after-book"
    assert not showing() and noise.is_private()


def test_an_account_never_pays_among_made_up_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the rule about the process broken, the payment would still refuse before the block runs."""
    monkeypatch.setattr(Opened, "here", False)
    account = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}").account("visits", Budget(epsilon=1))
    monkeypatch.setattr(Opened, "here", False)
    ran = False
    with made_up(), pytest.raises(LedgerError) as refused, account.paying(PureDP(1)):
        ran = True
    assert refused.value.code == "made-up-book" and not ran


@pytest.mark.usefixtures("no_book")
def test_a_callback_cannot_turn_it_on_inside_a_payment() -> None:
    with pytest.raises(ReleaseFailed) as caught, paying(None, PureDP(1)), made_up():
        raise KeyError(ROW)
    assert ROW not in repr(caught.value) and caught.value.__context__ is None


@pytest.mark.usefixtures("no_book")
def test_a_block_that_began_before_withholds() -> None:
    """What counts is when the block began: an error is not shown because made-up rows came later."""
    payment = paying(None, PureDP(1)).open()
    block = payment.touching()
    block.__enter__()
    with pytest.raises(LedgerError), made_up():
        pass
    with pytest.raises(ReleaseFailed) as caught:
        block.__exit__(KeyError, KeyError(ROW), None)
    assert ROW not in repr(caught.value)


@pytest.mark.usefixtures("no_book")
def test_production_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_PRODUCTION", "1")
    with pytest.raises(noise.SeedRefusedError), made_up():
        pass
    assert not showing()


@pytest.mark.usefixtures("no_book")
def test_another_thread_withholds() -> None:
    from threading import Thread

    seen: list[bool] = []
    with made_up():
        thread = Thread(target=lambda: seen.append(showing()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_a_fresh_process_may_use_it() -> None:
    script = "from tacit.ledger import made_up, paying\nfrom tacit.accounting import NoOp\n"
    script += "try:\n    with made_up(), paying(None, NoOp()):\n        {}['ward']\nexcept KeyError as error:\n    print('seen', error)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "seen 'ward'"


@pytest.mark.usefixtures("no_book")
def test_a_payment_within_a_paid_one_shows_nothing_even_among_made_up_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as other, made_up():
        # Another thread opens the book and the payment, and this one does the work.
        account = other.submit(lambda: Ledger.open(f"sqlite:///{tmp_path}/b.db").account("a", Budget(epsilon=1))).result()
        payment = other.submit(paying(account, PureDP(1)).open).result()
        with pytest.raises(ReleaseFailed) as caught, payment.touching(), paying(None, NoOp()):
            logging.getLogger("callback").warning(ROW)
            raise KeyError(ROW)
    assert ROW not in caplog.text and ROW not in repr(caught.value)
