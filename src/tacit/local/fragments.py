"""New words from fragments: a person reports a few letters of a word at a random position, with a public hash of the whole word.

Fragments of one word carry the same hash, so the frequent ones of each position are put together by it (Apple's Sequence Fragment Puzzle,
2017). Other people's reports of whole words then tell which of the puzzled words are real, and how frequent.

>>> search = FragmentSearch("abcdefgh", length=4, epsilon=4, hashes=16)
>>> people = ["head"] * 12000 + ["cafe"] * 9000 + ["bag"] * 6000
>>> [word for word, *_ in puzzle(people, search)]
['head', 'cafe', 'bag']
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.grouped import GroupedRandomiser, oracle
from tacit.local.heavy_hitters import END, Hit, PrefixCandidates
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Randomiser, named
from tacit.local.reports import to_batch
from tacit.parameters import Number, count, positive, probability

MOST = 1 << 16  # puzzled words


@domain
@dataclass(frozen=True)
class HashedWords(Domain):
    """Words of at most `length` letters of an alphabet with a public hash; anything else counts as the empty word.

    >>> HashedWords("abc", 4, 2, 8).fragments("cab") == [("ca", 1), ("b" + END, 3)]
    True
    """

    alphabet: str
    length: int
    step: int
    hashes: int

    kind: ClassVar[str] = "hashed-words"

    def __post_init__(self) -> None:
        for name in ("length", "step", "hashes"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet) or END in self.alphabet:
            raise ParameterError("alphabet must have letters, each once")
        if self.length % self.step or self.hashes > 2**16 or self.size > 2**62:
            raise ParameterError("length must be a multiple of step, and words and hashes together at most 2^62")

    @property
    def size(self) -> int:
        return int((len(self.alphabet) + 1) ** self.length * self.hashes)

    def hashed(self, word: str) -> int:
        """The public hash of a word."""
        return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % self.hashes

    def fragments(self, word: str) -> list[tuple[str, int]]:
        """The fragments of a word, each with its position counted from 1."""
        full = word.ljust(self.length, END)
        return [(full[i : i + self.step], i + 1) for i in range(0, self.length, self.step)]

    def place(self, value: object) -> int:
        known = isinstance(value, str) and len(value) <= self.length and set(value) <= set(self.alphabet)
        word = str(value) if known else ""
        return self.code(word.ljust(self.length, END)) * self.hashes + self.hashed(word)

    def code(self, letters: str) -> int:
        """Letters and ends as one number, an end being 0."""
        found = 0
        for letter in letters:
            found = found * (len(self.alphabet) + 1) + (0 if letter == END else 1 + self.alphabet.index(letter))
        return found

    def letters(self, code: int) -> str:
        """The fragment of a code."""
        found = ""
        for _ in range(self.step):
            code, digit = divmod(code, len(self.alphabet) + 1)
            found = (END + self.alphabet)[digit] + found
        return found


@named
@dataclass(frozen=True)
class FragmentReports(GroupedRandomiser):
    """The fragment at a random position and the word's hash, by a randomiser for frequencies."""

    letters: int = 26
    step: int = 2
    length: int = 6
    hashes: int = 256
    inner: str = "auto"

    kind: ClassVar[str] = "fragments"
    answered_by: ClassVar[str] = "FragmentSearch"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("letters", "step", "length", "hashes"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.length % self.step or self.size != (self.letters + 1) ** self.length * self.hashes:
            raise ParameterError("size must be that of all words with their hashes, and length a multiple of step")
        _ = self.parts

    def _parts(self) -> list[Randomiser]:
        one = oracle((self.letters + 1) ** self.step * self.hashes, self.epsilon, self.inner)
        return [one] * (self.length // self.step)

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        word, hashed = np.divmod(values, self.hashes)
        base = (self.letters + 1) ** self.step
        fragment = word // base ** (len(self.parts) - 1 - group) % base
        return np.asarray(fragment * self.hashes + hashed)


@dataclass(frozen=True)
class FragmentSearch:
    """A search for words of at most `length` letters by fragments of `step` letters; `miss` bounds the chance of any false fragment."""

    alphabet: str
    length: int
    epsilon: Number
    step: int = 2
    hashes: int = 256
    miss: Number = 0.01
    inner: str = "auto"

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if not 0 < probability("miss", self.miss) < 1:
            raise ParameterError("miss must be between 0 and 1")
        _ = self.protocol

    @property
    def protocol(self) -> Protocol:
        """What people who report fragments agree on."""
        words = HashedWords(self.alphabet, self.length, self.step, self.hashes)
        letters = len(words.alphabet)
        return Protocol(words, FragmentReports(words.size, self.epsilon, letters, words.step, words.length, words.hashes, self.inner))

    def words(self, collector: Collector) -> list[str]:
        """The words that the frequent fragments make up: one fragment a position, all of one hash, which is the word's own."""
        randomiser, words = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, FragmentReports) or not isinstance(words, HashedWords):
            raise ParameterError("the collector counts no reports of fragments; take `FragmentSearch.protocol`")
        by_hash: dict[int, list[list[str]]] = {}
        positions = len(randomiser.parts)
        for position, (part, (n, share, _)) in enumerate(zip(randomiser.parts, randomiser.shares(collector.table), strict=True)):
            limit = NormalDist().inv_cdf(1 - float(self.miss) / positions / part.size) * math.sqrt(part.variance(n))
            for place in np.flatnonzero(share > limit).tolist():
                code, hashed = divmod(place, words.hashes)
                by_hash.setdefault(hashed, [[] for _ in range(positions)])[position].append(words.letters(code))
        found: list[str] = []
        for hashed, fragments in sorted(by_hash.items()):
            if math.prod(map(len, fragments)) > MOST:
                continue  # a hash that fits too many fragments tells nothing
            for each in itertools.product(*fragments):
                word = "".join(each).rstrip(END)
                if word and END not in word and words.hashed(word) == hashed:
                    found.append(word)
        return found[:MOST]

    def verification(self, words: Sequence[str]) -> Protocol:
        """What other people agree on, who report whole words among the puzzled ones."""
        listed = tuple(word.ljust(self.length, END) for word in words)
        values = PrefixCandidates(self.length, self.length, listed)
        return Protocol(values, oracle(values.size, self.epsilon, self.inner))

    def heavy(self, collector: Collector) -> list[Hit]:
        """The puzzled words that people hold: word, share and deviation, the largest share first."""
        values, found = collector.protocol.values, collector.estimate()
        assert isinstance(values, PrefixCandidates)
        limit = NormalDist().inv_cdf(1 - float(self.miss) / len(values.candidates))
        limit *= math.sqrt(collector.protocol.randomiser.variance(collector.n))
        order = 1 + np.argsort(-found.share[1:], kind="stable")
        kept = [i for i in order.tolist() if found.share[i] > limit]
        return [(values.candidates[i - 1].rstrip(END), float(found.share[i]), float(found.deviation[i])) for i in kept]

    @property
    def event(self) -> LocalReport:
        """The price of one person's report, at the most: that of any randomiser of this epsilon."""
        return LocalReport(self.epsilon)


def puzzle(words: Iterable[str], search: FragmentSearch) -> list[Hit]:
    """Run a whole search among people who hold these words: word, share and deviation.

    Three in four report a fragment, the others a whole word among those that were puzzled together.

    Guarantee
        Statement: for any two words, what one person sends costs `search.event`, local.
        Conditions: the replacement of one person's word; each person reports once; the puzzled words come from other people's reports.
        Proved in: the randomisers' `distribution`.
    """
    people = list(words)
    order = noise.permutation(len(people))
    cut = 3 * len(order) // 4
    first = Collector(search.protocol).ingest([to_batch(search.protocol, [people[i] for i in order[:cut]])])
    found = search.words(first)
    if not found:
        return []
    whole = search.verification(found)
    return search.heavy(Collector(whole).ingest([to_batch(whole, [people[i] for i in order[cut:]])]))
