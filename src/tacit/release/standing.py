"""Where a job stands in the ledger: which account pays, what is left there, and whether a run would be
refused. No data is touched.

The account belongs to a name and a unit, not to a file: for a series it is the series' own, for a job that
names one it is that, and otherwise it is the job's. Another account in the book that protects the same unit
is named, because losses of one person add up over all of them.

>>> import pathlib, tempfile
>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> found = standing_of(plan(parse(EXAMPLE)), book)
>>> found.known, found.refused, found.left["epsilon"] == 1
(False, '', True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import Adjacency
from tacit.ledger import Account, Budget, DataIdentity, Ledger, LedgerError, price
from tacit.release.faults import in_job
from tacit.release.job import Job
from tacit.release.planning import JobPlan

#: How many other accounts of the same unit are named.
NAMED = 3


@dataclass(frozen=True)
class AccountTerms:
    """What an account is opened with: its name, its budget, the unit in words, the relation, and the window
    that its budget is for.
    """

    name: str
    budget: Budget
    unit: str
    adjacency: Adjacency
    window: str | None
    place: str
    called: str | None = None

    def asked(self) -> dict[str, Any]:
        """For `Ledger.account`."""
        return {"unit": self.unit, "adjacency": self.adjacency, "window": self.window, "called": self.called}


def terms_of(job: Job, protects: str = "") -> AccountTerms:
    """The terms of the account that pays for a job. `protects` says what of a unit is protected, where that
    is not all of it.
    """
    unit = job.unit.typed()
    whose = f"{unit.whom}: {protects}" if protects else unit.whom
    if job.series is not None:
        window = job.series.every if job.series.per == "period" else unit.window
        return AccountTerms(job.series.name, job.series.budget.typed(), whose, unit.adjacency, window, "series", unit.called)
    if job.account is not None:
        return AccountTerms(
            job.account.name, job.account.budget.typed(), whose, unit.adjacency, unit.window, "account", unit.called
        )
    return AccountTerms(job.title, job.budget.typed(), whose, unit.adjacency, unit.window, "budget", unit.called)


def account_for(
    job: Job, ledger: Ledger, data: Sequence[DataIdentity], protects: str = "", *, new_dataset: bool = False
) -> Account:
    """The account that pays for a job: that of its data. A second name for the same data is the same account."""
    terms = terms_of(job, protects)
    try:
        return ledger.account(
            terms.name, terms.budget, data=list(data), new_dataset=new_dataset, **terms.asked()
        )
    except LedgerError as error:
        if error.code != "terms-fixed":
            raise
        raise in_job(error, place=terms.place) from None


def period_of(job: Job, account: Account) -> str | None:
    """The period that a spend is booked for, where the account has one budget for each."""
    return job.period if account.spec.window is not None else None


@dataclass(frozen=True)
class Standing:
    """The account of a job as the book has it. `refused` says why a run would not be paid for; empty where it
    would be.
    """

    name: str
    known: bool
    period: str | None
    left: Mapping[str, Fraction]
    charge: Mapping[str, Fraction]
    refused: str
    alike: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """In words."""
        when = f" for {self.period}" if self.period else ""
        left = ", ".join(f"{name} {float(amount):.6g}" for name, amount in self.left.items())
        found = [
            f"account {self.name!r}{when}: {left} left"
            if self.known
            else f"account {self.name!r} is not in the book; a run opens it with {left}"
        ]
        found.append(f"a run would be REFUSED: {self.refused}" if self.refused else "a run would be paid for")
        return [*found, *(alike_note(self.name, other) for other in self.alike)]


def alike_note(name: str, other: str) -> str:
    """What is said of another account that protects the same unit."""
    return (
        f"account {other!r} protects the same unit as {name!r}. If it is about the same people, their "
        "losses add up: pay from one account "
        f"(series: {{name: {other}}}, or account: {{name: {other}}})"
    )


def alike(ledger: Ledger, terms: AccountTerms) -> tuple[str, ...]:
    """Other accounts that protect a unit of the same name, where this one is not in the book yet."""
    accounts = ledger.accounts()
    if any(account.name == terms.name for account in accounts) or terms.unit == "row":
        return ()
    return tuple(
        account.name
        for account in accounts
        if account.spec.unit == terms.unit and account.spec.parent is None
    )[:NAMED]


def standing_of(plan: JobPlan, ledger: Ledger) -> Standing:
    """Where the job stands: by name, because no data is looked at. Data that the book knows under another
    name is found by the run.
    """
    terms = terms_of(plan.job, plan.protects)
    charge = dict(plan.charge)
    account = next((one for one in ledger.accounts() if one.name == terms.name), None)
    if account is None:
        over = [
            name
            for name, limit in terms.budget.usable(correction=False).items()
            if charge.get(name, Fraction(0)) > limit
        ]
        why = f"{over[0]} of the job exceeds the account's budget" if over else ""
        return Standing(
            terms.name,
            False,
            plan.job.period,
            terms.budget.usable(correction=False),
            charge,
            why,
            alike(ledger, terms),
        )
    for word, given, opened in (
        ("unit", terms.unit, account.spec.unit), ("budget", terms.budget, account.spec.budget),
        ("window", terms.window, account.spec.window),
    ):  # fmt: skip
        if opened is not None and repr(given) != repr(opened):
            return Standing(
                terms.name,
                True,
                None,
                {},
                charge,
                f"the account was opened with {word} {opened}, and terms never change",
            )
    period = period_of(plan.job, account)
    why = ""
    left: Mapping[str, Fraction] = {}
    try:
        left = account.left(period)
        delta = plan.delta if "delta" in account.budget.limits and plan.delta else None
        charge = price(plan.booked, tuple(account.budget.limits), terms.adjacency, delta=delta)
        over = [name for name, amount in charge.items() if name in left and amount > left[name]]
        why = (
            f"it costs {over[0]} {float(charge[over[0]]):.6g}, and {float(left[over[0]]):.6g} is left"
            if over
            else ""
        )
    except LedgerError as error:
        why = str(error)
    return Standing(terms.name, True, period, left, charge, why, ())
