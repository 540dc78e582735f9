"""The next word, from two small tables: which tag follows two tags, and which word follows a word under a tag.

One table of all phrases of four or five words is too large to learn from noisy reports. Two tables of triples are not (Chang and Thakurta
2018, as told in section 2.5.1 of the book): tags of the two latest words predict the next tag, that tag and the latest word predict the
next word. A device draws one place of its text without looking at the words there and reports one triple to one of the two tables, with
the whole epsilon. Tags and vocabulary are public; a word outside the vocabulary counts as its first entry.

>>> from tacit.local import Collector, to_batch
>>> protocol = next_words(tags=["noun", "verb"], words=["<other>", "dogs", "bark", "loudly"], epsilon=4)
>>> text = [("dogs", "noun"), ("bark", "verb"), ("dogs", "noun"), ("bark", "verb")]
>>> held = [sampled_triple(text) for _ in range(4000)]
>>> model = TagWordModel.of(Collector(protocol).ingest([to_batch(protocol, held)]))
>>> model.predict([("bark", "verb"), ("dogs", "noun")], top=1)
['bark']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.grouped import GroupedRandomiser, oracle
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Randomiser, named
from tacit.parameters import Number, count

Array = NDArray[np.float64]
Tagged = tuple[str, str]  # a word and its tag


@dataclass(frozen=True)
class Triple:
    """Three neighbours in a text: two words with tags, and the word with its tag that came next."""

    before: Tagged
    latest: Tagged
    following: Tagged


def sampled_triple(text: Sequence[Tagged]) -> Triple | None:
    """Three neighbours of a text at a place that is drawn without looking at the words; None where the text is too short.

    >>> sampled_triple([("a", "x"), ("b", "y"), ("c", "z")]).following
    ('c', 'z')
    """
    if len(text) < 3:
        return None
    place = int(noise.uniform_integers(len(text) - 2))
    return Triple(text[place], text[place + 1], text[place + 2])


@domain
@dataclass(frozen=True)
class TaggedTexts(Domain):
    """Triples over public tags and a public vocabulary. What is in neither counts as its first entry, and what is no triple too."""

    tags: tuple[str, ...]
    words: tuple[str, ...]

    kind: ClassVar[str] = "tagged-texts"

    def __post_init__(self) -> None:
        for name in ("tags", "words"):
            given = tuple(getattr(self, name))
            if len(given) < 2 or len(set(given)) < len(given) or not all(isinstance(each, str) for each in given):
                raise ParameterError(f"{name} must be at least two different texts")
            object.__setattr__(self, name, given)
        object.__setattr__(self, "_tags", {tag: i for i, tag in enumerate(self.tags)})
        object.__setattr__(self, "_words", {word: i for i, word in enumerate(self.words)})

    @property
    def size(self) -> int:
        tags, words = len(self.tags), len(self.words)
        return tags**3 * words * tags * words

    def place(self, value: object) -> int:
        if not isinstance(value, Triple):
            return 0
        pairs = (value.before, value.latest, value.following)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return 0
        tags = [self._known("_tags", pair[1]) for pair in pairs]
        last, following = (self._known("_words", pair[0]) for pair in pairs[1:])
        t, w = len(self.tags), len(self.words)
        return int(np.ravel_multi_index((*tags, last, tags[2], following), (t, t, t, w, t, w)))

    def _known(self, table: str, value: object) -> int:
        known: dict[str, int] = getattr(self, table)
        return known.get(str.__str__(value), 0) if isinstance(value, str) else 0


@named
@dataclass(frozen=True)
class TagWordTables(GroupedRandomiser):
    """One of two tables, drawn alike: tag triples, or a word, a tag and the word that followed.

    Guarantee
        Statement: a report costs `event` for any two triples, and so for any two texts.
        Conditions: one report a person; the place in the text and the table are drawn without looking at words and tags.
        Proved in: `GroupedRandomiser`; a mixture over places of the text of laws that pairwise keep the price keeps it.
    """

    tags: int = 0
    words: int = 0
    oracle: str = "auto"

    kind: ClassVar[str] = "tag-word-tables"
    answered_by: ClassVar[str] = "TagWordModel"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tags", "words"):
            object.__setattr__(self, name, count(name, getattr(self, name), least=2))
        if self.size != self.tags**3 * self._pairs:
            raise ParameterError("size must be that of the tables of so many tags and words")
        _ = self.parts

    @property
    def _pairs(self) -> int:
        return self.words * self.tags * self.words

    def _parts(self) -> list[Randomiser]:
        return [oracle(size, self.epsilon, self.oracle) for size in (self.tags**3, self._pairs)]

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values // self._pairs if group == 0 else values % self._pairs


def next_words(tags: Sequence[str], words: Sequence[str], *, epsilon: Number, kind: str = "auto") -> Protocol:
    """A protocol for a model of the next word, over public tags and a public vocabulary.

    >>> protocol = next_words(["noun", "verb"], ["<other>", "dogs", "bark"], epsilon=1)
    >>> [part.size for part in protocol.randomiser.parts]
    [8, 18]
    """
    holding = TaggedTexts(tuple(tags), tuple(words))
    return Protocol(holding, TagWordTables(holding.size, epsilon, len(holding.tags), len(holding.words), kind))


@dataclass(frozen=True)
class TagWordModel:
    """Estimated shares of tag triples (tag, tag, next tag) and of word triples (word, next tag, next word)."""

    domain: TaggedTexts
    tags: Array
    words: Array

    @classmethod
    def of(cls, collector: Collector) -> TagWordModel:
        """The model that a collector's reports tell."""
        randomiser, holding = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, TagWordTables) or not isinstance(holding, TaggedTexts):
            raise ParameterError("the collector counts no reports of texts; make the protocol with `next_words`")
        (_, first, _), (_, second, _) = randomiser.shares(collector.table)
        return cls.from_shares(holding, first, second)

    @classmethod
    def from_shares(cls, holding: TaggedTexts, tags: Any, words: Any) -> TagWordModel:
        """The model of given shares or counts; noise is none of its business."""
        t, w = len(holding.tags), len(holding.words)
        return cls(holding, np.reshape(tags, (t, t, t)), np.reshape(words, (w, t, w)))

    def next_tag(self, before: str, latest: str) -> str:
        """The tag that most often follows two tags; where the two were hardly seen, the one that follows the latest."""
        first, second = (self.domain._known("_tags", tag) for tag in (before, latest))
        own = self.tags[first, second]
        chosen = own if own.max() > 0 else self.tags[:, second].sum(axis=0)
        return self.domain.tags[int(np.argmax(chosen))]

    def predict(self, text: Sequence[Tagged], top: int = 3) -> list[str]:
        """The likeliest next words after a text of words with tags, which has at least two."""
        if len(text) < 2:
            raise ParameterError("text must have at least two words with their tags")
        tag = self.domain._known("_tags", self.next_tag(text[-2][1], text[-1][1]))
        own = self.words[self.domain._known("_words", text[-1][0]), tag]
        chosen = own if own.max() > 0 else self.words[:, tag].sum(axis=0)
        order = np.argsort(-chosen, kind="stable")[: count("top", top)]
        return [self.domain.words[int(i)] for i in order]
