"""A device's memory and its book: what is sent again is the same, what is booked is never less than what was sent."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaincinv

from tacit.accounting import ParameterError
from tacit.audit import audit_reports
from tacit.ledger import Budget, BudgetExceeded, LedgerError
from tacit.local import Client, Label, Protocol, Response, frequencies

PROTOCOL = frequencies(["a", "b", "c", "d"], epsilon=1)


def payload(report: bytes) -> bytes:
    return report[17:]


def client(path: Path, **more: object) -> Client:
    return Client(PROTOCOL, ledger=path, **{"lifetime": "eps=3", **more})  # type: ignore[arg-type]


def test_a_memorised_report_is_the_same_after_a_restart(tmp_path: Path) -> None:
    sent = {payload(client(tmp_path / "me.db", values=2).report("b")) for _ in range(4)}
    assert len(sent) == 1
    other = client(tmp_path / "me.db", values=2)
    assert {payload(other.report("b")), payload(other.report("b"))} == sent
    assert str(other.spent()) == "epsilon 2"


def test_nonces_are_fresh_though_the_value_is_not(tmp_path: Path) -> None:
    own = client(tmp_path / "me.db")
    assert own.report("a")[9:17] != own.report("a")[9:17]


def test_values_beyond_the_paid_ones_repeat_the_last(tmp_path: Path) -> None:
    own = client(tmp_path / "me.db", values=2)
    first, second = payload(own.report("a")), payload(own.report("b"))
    assert [payload(own.report(v)) for v in ("c", "d", "a", "b")] == [second, second, first, second]
    with sqlite3.connect(tmp_path / "me.db") as found:
        assert found.execute("SELECT count(*) FROM tacit_memo").fetchone() == (3,)


def test_the_lifetime_is_refused_before_the_value_is_looked_at(tmp_path: Path) -> None:
    class Trap:
        def __hash__(self) -> int:
            raise AssertionError("looked at")

        __eq__ = object.__eq__

    own = client(tmp_path / "me.db", values=None)
    for value in "abc":
        own.report(value)
    with pytest.raises(BudgetExceeded):
        own.report(Trap())
    with pytest.raises(BudgetExceeded):
        client(tmp_path / "other.db", values=4).report(Trap())


def test_a_period_is_reported_once(tmp_path: Path) -> None:
    own = client(tmp_path / "me.db", values=None)
    days = [payload(own.report(value, period=day)) for day, value in (("mon", "a"), ("tue", "b"), ("mon", "c"), ("tue", "d"))]
    assert days[:2] == days[2:] and str(own.spent()) == "epsilon 2"


def test_terms_are_kept(tmp_path: Path) -> None:
    client(tmp_path / "me.db", values=2)
    with pytest.raises(ParameterError, match="values=2"):
        client(tmp_path / "me.db", values=3)
    with pytest.raises(LedgerError):
        client(tmp_path / "me.db", values=2, lifetime="eps=9")
    with pytest.raises(ParameterError, match="one budget for good"):
        from tacit.ledger import Budget

        client(tmp_path / "new.db", lifetime=Budget(epsilon=1, period="day"))
    with pytest.raises(ParameterError, match="period"):
        client(tmp_path / "me.db", values=2).report("a", period="mon")


class Device:
    """One new device for each call: a real client with its file, closed and opened again every so many days.

    The mutant forgets what it drew at a restart, and its book still says that the lifetime was paid.
    """

    def __init__(self, protocol: Protocol, folder: Path, restart: int, *, forgets: bool = False) -> None:
        self.protocol, self.folder, self.restart, self.forgets, self.made = protocol, folder, restart, forgets, 0

    def __call__(self, values: Sequence[Label]) -> list[bytes]:
        self.made += 1
        path, sent = self.folder / f"{self.made}.db", list[bytes]()
        for day, value in enumerate(values):
            if day % self.restart == 0:
                if self.forgets and path.exists():
                    with contextlib.closing(sqlite3.connect(path)) as memo, memo:
                        memo.execute("DELETE FROM tacit_memo WHERE slot >= '0'")
                own = Client(self.protocol, ledger=path, lifetime="eps=1")
            sent.append(own.report(value))
        assert str(own.spent()) == "epsilon 1"
        path.unlink()
        return sent


def averaged(sent: Sequence[bytes], protocol: Protocol) -> bool:
    """The attack by averaging: whether most of a device's reports say yes."""
    said = [protocol.randomiser.from_bytes(np.frombuffer(payload(one), dtype=np.uint8)[None])[0][0] for one in sent]
    return 2 * sum(map(int, said)) > len(said)


YES_NO = Protocol(("no", "yes"), Response(2, epsilon=1))


def test_averaging_a_year_of_reports(tmp_path: Path) -> None:
    """365 days of two real devices with a restart every 73: one payload, whatever is averaged. A forgetful device's 73 draws say the value,
    with a chance of error below 1e-4, and 365 reports drawn anew with one below 1e-9."""
    anew = np.array([YES_NO.randomiser.privatise([1])[0] for _ in range(365)])
    assert anew.mean() > 0.5 + 0.08  # .731 expected, deviation .023
    for value in ("yes", "no"):
        assert len({payload(one) for one in Device(YES_NO, tmp_path, 73)([value] * 365)}) == 1
    forgetful = Device(YES_NO, tmp_path, 5, forgets=True)(["yes"] * 365)
    assert len({payload(one) for one in forgetful}) == 2 and averaged(forgetful, YES_NO)


def told(right: int, tried: int) -> float:
    """The least epsilon at which guesses are right so often, at 99%: at epsilon one guess is right with e^eps / (1 + e^eps) at most."""
    least = float(betaincinv(right, tried - right + 1, 0.01))
    return math.log(least / (1 - least))


@pytest.mark.slow
def test_a_year_of_the_real_client_keeps_its_claim(tmp_path: Path) -> None:
    """60 devices of each value, 365 days, a restart each month: neither the search over all that is sent nor averaging beats the price
    of one report, and averaging shows at least 40% of it. Devices that forget at weekly restarts are found by averaging 15 of each."""

    def averaging(device: Device, seen: list[bool]) -> Callable[[Sequence[Label]], list[bytes]]:
        def sends(values: Sequence[Label]) -> list[bytes]:
            sent = device(values)
            assert len(sent) == 365 and (device.forgets or len({payload(one) for one in sent}) == 1)
            seen.append(averaged(sent, YES_NO) == (values[0] == "yes"))
            return sent

        return sends

    right: list[bool] = []
    found = audit_reports(YES_NO, averaging(Device(YES_NO, tmp_path, 30), right), days=365, trials=60, seed=6)
    assert not found.broken and len(right) == 120
    assert 0.4 < told(sum(right), 120) <= 1
    forgot: list[bool] = []
    sends = averaging(Device(YES_NO, tmp_path, 7, forgets=True), forgot)
    for value in ("yes", "no") * 15:
        sends([value] * 365)
    assert told(sum(forgot), 30) > 1


ONE = """
import sys
from pathlib import Path
from tacit.local import Client, frequencies
print(Client(frequencies(["a", "b", "c", "d"], epsilon=1), ledger=Path(sys.argv[1]), lifetime="eps=3").report("c").hex())
"""


def test_processes_side_by_side_spend_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ONE, str(tmp_path / "me.db")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    sent = {payload(bytes.fromhex(one.communicate(timeout=120)[0].strip())) for one in running}
    assert len(sent) == 1 and str(client(tmp_path / "me.db").spent()) == "epsilon 1"


KILLED = """
import os, sqlite3, sys
from pathlib import Path
stop = int(sys.argv[2])
calls = 0
class Watched(sqlite3.Connection):
    def execute(self, *given):
        global calls
        calls += 1
        if calls == stop:
            os._exit(9)
        return super().execute(*given)
plain = sqlite3.connect
sqlite3.connect = lambda *a, **k: plain(*a, **{**k, "factory": Watched})
from tacit.local import Client, frequencies
client = Client(frequencies(["a", "b", "c", "d"], epsilon=1), ledger=Path(sys.argv[1]), lifetime="eps=3", values=1)
print(client.report("c").hex())
print("done", file=sys.stderr)
"""


@pytest.mark.slow
def test_a_kill_at_any_statement_leaves_no_report_that_was_not_booked(tmp_path: Path) -> None:
    for stop in range(1, 60):
        path = tmp_path / f"{stop}.db"
        found = subprocess.run([sys.executable, "-c", KILLED, str(path), str(stop)], capture_output=True, text=True, env={**os.environ})
        own = client(path, values=1)
        sent = [payload(bytes.fromhex(line)) for line in found.stdout.split()]
        again = payload(own.report("c"))
        assert all(one == again for one in sent) and own.spent() is not None
        if "done" in found.stderr:
            break
    else:
        pytest.fail("the run was never finished")


def test_what_the_price_of_two_values_covers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All histories of three reports of two values, by the draws that the device really sends: laws of what is seen, enumerated.

    The price holds between histories that change at the same reports, and between no others, as the statement says.
    """
    protocol = Protocol(frequencies(["a", "b"], epsilon=1).values, Response(2, 1))
    law = {place: [float(sum(protocol.randomiser.distribution(place)[said])) / 2 for said in (0, 1)] for place in (0, 1)}
    values: list[int] = []

    def numbered(self: Response, places: np.ndarray) -> np.ndarray:
        values.append(int(places[0]))
        return np.array([len(values) - 1], dtype=np.uint8)

    monkeypatch.setattr(Response, "privatise", numbered)
    laws: dict[tuple[int, ...], dict[tuple[int, ...], dict[tuple[int, ...], float]]] = {}
    for number, history in enumerate(itertools.product("ab", repeat=3)):
        values.clear()
        own = Client(protocol, ledger=tmp_path / f"{number}.db", lifetime="eps=3", values=2)
        slots = tuple(payload(own.report(value))[0] for value in history)
        seen: dict[tuple[int, ...], float] = {}
        for drawn in itertools.product((0, 1), repeat=len(values)):
            sent = tuple(drawn[slot] for slot in slots)
            seen[sent] = seen.get(sent, 0) + math.prod(law[place][said] for place, said in zip(values, drawn, strict=True))
        laws.setdefault(slots, {})[tuple(values)] = seen
    assert len(laws) == 4 and sum(map(len, laws.values())) == 8
    for (slots, one), (others, two) in itertools.product(laws.items(), repeat=2):
        for p, q in itertools.product(one.values(), two.values()):
            worst = max(share / q[sent] if sent in q else math.inf for sent, share in p.items())
            if slots == others:
                assert worst <= math.exp(2) * (1 + 1e-12)
            elif set(slots) == {0, 1}:
                assert worst == math.inf or len(set(others)) == 2
    stays, changes = next(iter(laws[0, 0, 0].values())), next(iter(laws[0, 1, 0].values()))
    assert (0, 1, 0) in changes and (0, 1, 0) not in stays
    assert "*when* a value changes shows" in str(Client.__doc__)


DAILY = Budget(epsilon=2, period="day")


def test_a_day_has_a_budget_of_its_own_within_the_lifetime(tmp_path: Path) -> None:
    """Two protocols of epsilon 1 fit a day of 2, a third does not; a new day goes on until the lifetime of 5 is spent."""
    protocols = [frequencies([name, "b", "c"], epsilon=1) for name in "xyz"]
    own = [Client(each, ledger=tmp_path / "me.db", lifetime="eps=5", values=None, each=DAILY) for each in protocols]
    first = own[0].report("b", period="2026-03-01")
    own[1].report("b", period="2026-03-01")
    with pytest.raises(BudgetExceeded):
        own[2].report("b", period="2026-03-01")
    assert payload(own[0].report("c", period="2026-03-01")) == payload(first)  # known: nothing is drawn and nothing is paid
    for one in own[:2]:
        one.report("b", period="2026-03-02")
    own[0].report("b", period="2026-02-01")  # a clock that was set back pays like any other day
    assert str(own[2].spent()) == "epsilon 5"
    with pytest.raises(BudgetExceeded):
        own[2].report("b", period="2026-03-03")
    # after a restart the terms are the same, and others are refused
    assert payload(Client(protocols[0], ledger=tmp_path / "me.db", lifetime="eps=5", values=None, each=DAILY).report(
        "a", period="2026-03-01")) == payload(first)  # fmt: skip
    with pytest.raises(ParameterError, match="each"):
        Client(protocols[0], ledger=tmp_path / "me.db", lifetime="eps=5", values=None)


def test_a_daily_budget_names_its_days_and_never_stands_alone(tmp_path: Path) -> None:
    own = client(tmp_path / "me.db", values=None, each=DAILY)
    for wrong in (None, "2026-03", "today"):
        with pytest.raises((ParameterError, LedgerError), match="period must"):
            own.report("a", period=wrong)
    assert str(own.spent()) == "epsilon 0"
    for bad in ({"each": Budget(epsilon=1), "values": None}, {"each": DAILY, "values": 2}):
        with pytest.raises(ParameterError, match="each is a budget with a period"):
            client(tmp_path / "other.db", **bad)
    with pytest.raises(ParameterError, match="adds up without end"):
        Client(PROTOCOL, ledger=tmp_path / "no.db", lifetime=DAILY, values=None)


def test_a_file_that_is_gone_ends_the_reports(tmp_path: Path) -> None:
    own = client(tmp_path / "me.db")
    own.report("a")
    (tmp_path / "me.db").unlink()
    with pytest.raises(LedgerError, match="file is gone"):
        own.report("a")
    assert not (tmp_path / "me.db").exists()
