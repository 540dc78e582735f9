"""Frequent words that are on no list: prefixes grow, a few letters a round, and only the heavy ones grow on.

People are split over rounds and each reports once, one prefix, among the candidates that earlier rounds' reports left (PEM; Wang, Li, Jha
2021). `treehist` grows by single letters and keeps people for the whole words at the end (Bassily et al. 2020); `privtrie` asks in
portions and stops asking about a prefix once it is decided (Wang et al. 2018). What is kept lies above a threshold that holds for all
candidates of all rounds at once.

>>> search = PrefixSearch("abcdef", length=3, epsilon=3, step=1)
>>> people = ["bad"] * 9000 + ["fad"] * 6000 + ["cafe"] * 3000
>>> [word for word, *_ in find(people, search)]
['bad', 'fad']
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.grouped import oracle
from tacit.local.protocol import Protocol
from tacit.local.reports import to_batch
from tacit.parameters import Number, count, positive, probability

END = "\0"  # fills up words that are shorter than a prefix
MOST = 1 << 20  # candidates of one round
METHODS = ("pem", "treehist", "privtrie")
Hit = tuple[str, float, float]


@domain
@dataclass(frozen=True)
class PrefixCandidates(Domain):
    """Prefixes of `letters` letters, of words of at most `length`: place 0 for all that are no candidate, then the candidates.

    >>> some = PrefixCandidates(2, 4, ("ap", "b" + END))
    >>> [some.place(word) for word in ("apes", "b", "be", "apples", None)]
    [1, 2, 0, 0, 0]
    """

    letters: int
    length: int
    candidates: tuple[str, ...]

    kind: ClassVar[str] = "prefixes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "letters", count("letters", self.letters))
        object.__setattr__(self, "length", count("length", self.length, least=self.letters))
        object.__setattr__(self, "candidates", tuple(self.candidates))
        if len(set(self.candidates)) < len(self.candidates) or not self.candidates:
            raise ParameterError("candidates must be at least one, and each listed once")
        if any(not isinstance(each, str) or len(each) != self.letters for each in self.candidates):
            raise ParameterError(f"candidates must be texts of {self.letters} letters")

    @property
    def size(self) -> int:
        return len(self.candidates) + 1

    @cached_property
    def _places(self) -> dict[str, int]:
        return {each: place for place, each in enumerate(self.candidates, 1)}

    def place(self, value: object) -> int:
        if not isinstance(value, str) or len(value) > self.length or END in value:
            return 0
        return self._places.get(value[: self.letters].ljust(self.letters, END), 0)


@dataclass(frozen=True)
class PrefixSearch:
    """A search for words of at most `length` letters of an alphabet; `step` letters are added a round, and at most `keep` prefixes kept.

    `miss` is the chance, at the most, that anything is kept in any round that not one person holds, or for `privtrie` that a word below
    the share `least` is found: a word so near to `least` that its portions do not decide is left out. `inner` names the randomiser of
    the rounds.
    """

    alphabet: str
    length: int
    epsilon: Number
    step: int = 2
    method: str = "pem"
    keep: int = 32
    miss: Number = 0.01
    least: Number = 0.02
    inner: str = "auto"

    def __post_init__(self) -> None:
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet) or END in self.alphabet:
            raise ParameterError("alphabet must have letters, each once")
        for name in ("length", "step", "keep"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        positive("epsilon", self.epsilon)
        if not 0 < probability("miss", self.miss) < 1 or not 0 < probability("least", self.least) < 1:
            raise ParameterError("miss and least must be between 0 and 1")
        if self.method not in METHODS:
            raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}")
        if self.method == "treehist":
            object.__setattr__(self, "step", 1)
        if sum(len(self.alphabet) ** letters for letters in range(min(self.step, self.length) + 1)) * self.keep > MOST:
            raise ParameterError(f"a round could have more than {MOST:,} candidates; take a smaller step or keep fewer")

    def _extensions(self, letters: int) -> list[str]:
        """All ways to go on: letters, then only ends."""
        found = []
        for inner in range(letters, -1, -1):
            found += ["".join(each) + END * (letters - inner) for each in itertools.product(self.alphabet, repeat=inner)]
        return found

    @property
    def lengths(self) -> list[int]:
        """How many letters the prefixes of each round have; `treehist` asks for whole words once more."""
        found = [*range(self.step, self.length, self.step), self.length]
        return [*found, self.length] if self.method == "treehist" else found

    def candidates(self, round_: int, kept: Sequence[str]) -> tuple[str, ...]:
        """The prefixes that a round asks about, from those that the one before kept.

        >>> len(PrefixSearch("abcdefghijklmnopqrstuvwxyz", 6, 2).candidates(0, ()))  # 26^2, 26 words of one letter, the empty word
        703
        """
        letters = self.lengths[round_]
        if round_ == 0:
            return tuple(self._extensions(letters))
        before = self.lengths[round_ - 1]
        if before == letters:
            return tuple(kept)
        more = self._extensions(letters - before)
        closed = END * (letters - before)
        return tuple(one + each for one in kept for each in ([closed] if one.endswith(END) else more))

    def protocol(self, round_: int, kept: Sequence[str] = ()) -> Protocol:
        """What the people of a round agree on; the candidates are public, since they come from reports."""
        return self.asking(round_, self.candidates(round_, kept))

    def asking(self, round_: int, candidates: Sequence[str]) -> Protocol:
        """A protocol for some of a round's candidates."""
        values = PrefixCandidates(self.lengths[round_], self.length, tuple(candidates))
        return Protocol(values, oracle(values.size, self.epsilon, self.inner))

    def deviates(self, candidates: int) -> float:
        """How many deviations above nothing a share must lie, such that of all candidates of all rounds none does by chance."""
        return NormalDist().inv_cdf(1 - float(self.miss) / len(self.lengths) / candidates)

    def heavy(self, collector: Collector) -> list[Hit]:
        """The prefixes that a round keeps: prefix, share and deviation, the largest share first."""
        values = collector.protocol.values
        if not isinstance(values, PrefixCandidates):
            raise ParameterError("the collector counts no reports of prefixes; make the protocol with `PrefixSearch.protocol`")
        found = collector.estimate()
        limit = self.deviates(len(values.candidates)) * math.sqrt(collector.protocol.randomiser.variance(collector.n))
        order = 1 + np.argsort(-found.share[1:], kind="stable")[: self.keep]
        return [(values.candidates[i - 1], float(found.share[i]), float(found.deviation[i])) for i in order if found.share[i] > limit]

    @property
    def event(self) -> LocalReport:
        """The price of one person's report, at the most of all rounds: that of any randomiser of this epsilon."""
        return LocalReport(self.epsilon)


def find(words: Sequence[str] | Iterable[str], search: PrefixSearch) -> list[Hit]:
    """Run a whole search among people who hold these words, as a rehearsal or in one place: word, share and deviation.

    People are split over rounds at random, each reports once, and only reports decide.

    Guarantee
        Statement: for any two words, what one person sends costs `search.event`, local.
        Conditions: the replacement of one person's word; each person answers in one round; candidates come from other people's reports.
        Proved in: the randomisers' `distribution`; a round's candidates are public when its people report.
    """
    people = list(words)
    order = noise.permutation(len(people))
    if search.method == "privtrie":
        return _portions(people, order, search)
    rounds = len(search.lengths)
    kept: list[Hit] = []
    for round_ in range(rounds):
        if round_ and not kept:
            return []
        protocol = search.protocol(round_, [prefix for prefix, *_ in kept])
        own = order[len(order) * round_ // rounds : len(order) * (round_ + 1) // rounds]
        kept = search.heavy(Collector(protocol).ingest([to_batch(protocol, [people[i] for i in own])]))
    return [(prefix.rstrip(END), share, deviation) for prefix, share, deviation in kept]


def _portions(people: list[str], order: NDArray[np.int64], search: PrefixSearch, portions: int = 3) -> list[Hit]:
    """PrivTrie: a level is asked in portions, each only about prefixes that are neither surely above nor surely below the least share."""
    rounds, least = len(search.lengths), float(search.least)
    parts = rounds * portions
    part, kept = 0, list[str]()
    answers: dict[str, tuple[float, float]] = {}
    for round_ in range(rounds):
        if round_ and not kept:
            return []
        open_ = list(search.candidates(round_, kept))
        wide = NormalDist().inv_cdf(1 - float(search.miss) / 2 / parts / len(open_))
        sums: dict[str, tuple[float, float]] = {}  # precision-weighted sums of shares, and precisions
        answers = {}
        last = parts if round_ == rounds - 1 else part + portions  # what is left over goes to the words
        while open_ and part < last:
            protocol = search.asking(round_, open_)
            own = order[len(order) * part // parts : len(order) * (part + 1) // parts]
            found = Collector(protocol).ingest([to_batch(protocol, [people[i] for i in own])]).estimate()
            part += 1
            still = []
            for prefix, share, deviation in zip(open_, found.share[1:].tolist(), found.deviation[1:].tolist(), strict=True):
                total, precision = sums.get(prefix, (0.0, 0.0))
                total, precision = total + share / deviation**2, precision + 1 / deviation**2
                sums[prefix] = total, precision
                mean, spread = total / precision, 1 / math.sqrt(precision)
                answers[prefix] = mean, spread
                if mean - wide * spread < least < mean + wide * spread:
                    still.append(prefix)
            open_ = still
        # a prefix that is still open grows on where it may be heavy; a word that is still open is no answer
        maybe = set(open_) if round_ < rounds - 1 else set()
        decided = [each for each, (mean, spread) in answers.items() if mean >= least + (0.0 if each in maybe else wide * spread)]
        kept = sorted(decided, key=lambda each: -answers[each][0])[: search.keep]
    return [(prefix.rstrip(END), *answers[prefix]) for prefix in kept]
