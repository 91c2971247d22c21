"""A company's worth of made-up chunks: words as rare as words are, meanings that lie near each other within a base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placet.knowledge.tokens import terms

WORDS = 50_000
WORDS_PER_CHUNK = 120
QUESTION_WORDS = 6
FILLERS = 50  # the commonest words stand for those that questions are stripped of
CHUNKS_PER_DOCUMENT = 20
BASES = 100
DIMENSIONS = 512


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands; `document` counts documents of the whole corpus, `ordinal` the chunks of one, from 1."""

    number: int
    base: int
    document: int
    ordinal: int


class Corpus:
    """The same chunks and questions for the same size."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        chance = np.random.default_rng(7)
        shares = 1 / np.arange(1, WORDS + 1)
        self._steps = np.cumsum(shares / shares.sum())
        self._centres = chance.standard_normal((BASES, DIMENSIONS), dtype=np.float32)
        self.words = [_word(number) for number in range(WORDS)]
        self.terms = [terms(word)[0] for word in self.words]

    def base_of(self, number: int) -> int:
        """Base 0 holds a thousandth of the chunks, bases 0 to 9 a tenth, all of them everything."""
        if number < max(1, self.chunks // 1000):
            return 0
        if number < self.chunks // 10:
            return 1 + number % 9
        return 10 + number % (BASES - 10)

    def places(self) -> Iterator[Place]:
        """All chunks, base by base and document by document."""
        document, ordinal, last = -1, CHUNKS_PER_DOCUMENT, -1
        for base, number in sorted((self.base_of(number), number) for number in range(self.chunks)):
            if base != last or ordinal == CHUNKS_PER_DOCUMENT:
                document, ordinal, last = document + 1, 0, base
            ordinal += 1
            yield Place(number, base, document, ordinal)

    def words_of(self, place: Place) -> NDArray[np.int64]:
        return self._drawn(np.random.default_rng((1, place.number)), WORDS_PER_CHUNK)

    def vector_of(self, place: Place) -> NDArray[np.float32]:
        return self._near(place.base, np.random.default_rng((2, place.number)))

    def questions(self, count: int) -> list[tuple[str, list[float]]]:
        """Words of one chunk as they come, but for the commonest; the meaning is near a base of the narrowest scope."""
        chance = np.random.default_rng(1)
        asked = []
        while len(asked) < count:
            drawn = [int(word) for word in self._drawn(chance, WORDS_PER_CHUNK) if word >= FILLERS][:QUESTION_WORDS]
            asked.append((" ".join(self.words[word] for word in drawn), self._near(0, chance).tolist()))
        return asked

    def _near(self, base: int, chance: np.random.Generator) -> NDArray[np.float32]:
        vector = self._centres[base] * np.float32(0.6) + chance.standard_normal(DIMENSIONS, dtype=np.float32)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    def _drawn(self, chance: np.random.Generator, count: int) -> NDArray[np.int64]:
        return np.searchsorted(self._steps, chance.random(count))


def _word(number: int) -> str:
    """Every second one Chinese: two characters, so one term."""
    if number % 2:
        return chr(0x4E00 + number // 2 % 5000) + chr(0x5E00 + number // 2 // 5000 * 100 + number // 2 % 97)
    letters, rest = "", number
    while rest or len(letters) < 3:
        letters, rest = letters + "bcdfghjkmz"[rest % 10], rest // 10
    return letters + "o"
