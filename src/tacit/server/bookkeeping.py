"""The book and its accounts, for those who answer for them: what was spent, by whom, for which purpose, and whether it is in order.

An analyst sees their own accounts, with what is left through every account above. A curator and an officer see the whole tree and
the entries; the officer exports the book. Entries hold events, prices, purposes and released answers, and no row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from tacit.ledger import Account, Ledger, LedgerError
from tacit.server.access import Caller, check
from tacit.server.datasets import Dataset
from tacit.server.errors import not_found
from tacit.server.purposes import Purposes

#: So many views of accounts are kept.
MOST_SEEN = 10_000


class Bookkeeping:
    """Accounts and entries of the service's book."""

    def __init__(self, ledger: Ledger, datasets: Mapping[str, Dataset], purposes: Purposes) -> None:
        self.ledger, self.datasets, self.purposes = ledger, datasets, purposes
        # the account that someone saw under a number, what the book said then, and the view
        self._seen: dict[tuple[object, ...], tuple[Account, tuple[object, ...], bytes]] = {}

    # --- accounts -----------------------------------------------------------------------------------------------------

    def accounts(self, caller: Caller) -> list[dict[str, Any]]:
        """The accounts that exist for the caller, with what was spent and what is left."""
        scope = check(caller, "list_accounts")
        return [self._view(*found) for found in self._tree(caller, scope)]

    def account(self, caller: Caller, number: str) -> dict[str, Any]:
        """One account, with a bound on the loss so far that holds at every moment (the odometer)."""
        scope = check(caller, "read_account")
        for account, level, dataset, purpose in self._tree(caller, scope):
            if number_of(account) == number:
                stamp = account.stamp()  # before the view: what is booked meanwhile makes the stamp an old one
                view = {**self._view(account, level, dataset, purpose), "odometer": self._odometer(account)}
                if account.spec.window is None:
                    if len(self._seen) > MOST_SEEN:
                        self._seen.clear()
                    self._seen[_who(caller), number] = account, stamp, json.dumps(view, separators=(",", ":")).encode()
                return view
        raise not_found()

    def account_at_once(self, caller: Caller, number: str) -> bytes | None:
        """The same as JSON where the caller has seen it and the book says what it said then. None means that `account` has to be asked.

        An account that once was in what a caller may see stays there: neither accounts nor purposes are taken away.
        """
        check(caller, "read_account")
        account, stamp, view = self._seen.get((_who(caller), number), (None, None, None))
        try:
            if account is None or view is None or account.stamp(timeout=0) != stamp:
                return None
        except LedgerError:
            return None
        return view

    def _tree(self, caller: Caller, scope: str) -> Iterator[tuple[Account, str, str, str]]:
        """Accounts with their level, data set and purpose."""
        if scope == "own":
            for purpose in self.purposes.all():
                for name in purpose.spec.datasets:
                    if caller.may_see(name) and name in self.datasets:
                        yield self.datasets[name].account_of(purpose, caller.person), "analyst", name, purpose.id
            return
        tops = {dataset.account.spec.id: name for name, dataset in self.datasets.items()}
        for account in self.ledger.accounts():
            path = account.path()
            dataset_name = tops.get(path[-1].id)
            if dataset_name is None or not caller.may_see(dataset_name) or len(path) > 3:
                continue
            level = ("data set", "purpose", "analyst")[len(path) - 1]
            purpose_name = path[-2].name.removeprefix(f"{path[-1].name}/") if len(path) > 1 else ""
            yield account, level, dataset_name, purpose_name

    def _view(self, account: Account, level: str, dataset: str, purpose: str) -> dict[str, Any]:
        spent = account.spent()
        left: Mapping[str, Any] = {}
        if account.spec.window is None:
            left = account.left()
        parent = account.path()[1].name if account.spec.parent is not None else None
        return {
            "id": number_of(account), "name": account.name, "level": level, "dataset": dataset, "purpose": purpose,
            "parent": None if parent is None else _digest(parent),
            "person": account.name.rpartition("/")[2] if level == "analyst" else None, "budget": str(account.budget),
            "limits": {name: float(value) for name, value in account.budget.limits.items()},
            "spent": {name: float(value) for name, value in spent.standing().items()},
            "left": {name: float(value) for name, value in left.items()},
            "collusion": account.spec.collusion, "unit": account.spec.unit, "window": account.spec.window,
        }  # fmt: skip

    def _odometer(self, account: Account) -> dict[str, Any] | None:
        try:
            reading = account.odometer("1e-6")
        except LedgerError:
            return None
        return {"text": str(reading)}

    # --- entries ------------------------------------------------------------------------------------------------------

    def entries(self, caller: Caller, *, since: int = 1, most: int = 100, search: str = "") -> list[dict[str, Any]]:
        """Entries of the book from a number on, those that hold a text in who, what for or what."""
        check(caller, "book_entries")
        wanted, mine = search.casefold(), self._theirs(caller)
        found = (
            _told(entry) for entry in self.ledger.entries(since=since)
            if mine(entry) and (not wanted or wanted in json.dumps(_searched(entry)).casefold())
        )  # fmt: skip
        return list(islice(found, max(1, min(most, 1000))))

    def _theirs(self, caller: Caller) -> Callable[[Mapping[str, Any]], bool]:
        """Whether an entry is about a data set that exists for the caller."""
        if caller.datasets is None:
            return lambda entry: True
        tops = {self.datasets[name].account.spec.id for name in caller.datasets if name in self.datasets}
        seen = {account.spec.id for account in self.ledger.accounts() if account.path()[-1].id in tops}
        booked: set[int] = set()

        def mine(entry: Mapping[str, Any]) -> bool:
            if entry.get("account") in seen or (entry["kind"] == "account" and entry.get("id") in seen):
                booked.add(int(entry["seq"]))
                return True
            return entry.get("reservation") in booked

        return mine

    def head(self, caller: Caller) -> str:
        """The last entry's number and hash, to be remembered elsewhere."""
        check(caller, "book_head")
        return self.ledger.head()

    def verify(self, caller: Caller, head: str | None = None) -> dict[str, Any]:
        """Read the whole book, and say what is wrong with it; `head` is one remembered from before."""
        check(caller, "book_verify")
        found = self.ledger.verify(head=head)
        return {"ok": found.ok, "entries": found.entries, "head": found.head, "problems": list(found.problems), "open": list(found.open)}

    def export(self, caller: Caller) -> Iterator[str]:
        """Every entry as a line of JSON, in order."""
        check(caller, "book_export")
        if caller.datasets is not None:
            raise not_found()  # the chain of hashes is whole or nothing: it is for those who may see every data set
        return (json.dumps(entry, sort_keys=True, separators=(",", ":")) + "\n" for entry in self.ledger.entries())

    def events_of(self, dataset: Dataset, run: str) -> list[dict[str, Any]]:
        """The payments of one run on a data set's own account: a training names its run."""
        if not run:
            return []
        paid = dataset.account.payments(run=run)
        return [{"entry": payment.entry, "event": repr(payment.event), "status": payment.status} for payment in paid]


def _who(caller: Caller) -> tuple[object, ...]:
    """What decides which accounts a caller may see."""
    return caller.person, caller.roles, caller.datasets


def number_of(account: Account) -> str:
    """The name of an account in addresses; it cannot be counted up."""
    return _digest(account.name)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _told(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without the answer that it keeps: that is for whoever paid for it. The export has the whole of it."""
    return {name: value for name, value in entry.items() if name != "answer"}


def _searched(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry.get(name) for name in ("kind", "analyst", "purpose", "run", "event", "terms", "name", "time", "seq")}
