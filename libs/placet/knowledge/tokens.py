"""Text to index terms: character bigrams for Chinese, stems for English, in one index."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import snowballstemmer

# Scripts written without spaces: CJK ideographs with extensions, kana, hangul.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_PLAIN = rf"[^\W_{_UNSPACED}]"
# A number may hold separators; digits that letters follow are part of a name ("7f3a").
_WORD = re.compile(rf"[{_UNSPACED}]+|\d+(?:[.,]\d+)*(?!{_PLAIN})|{_PLAIN}+")
_WIDE_PUNCTUATION = "！-／：-＠［-｀｛-～￥"
_NOT_WIDE_PUNCTUATION = re.compile(rf"[^{_WIDE_PUNCTUATION}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
MAX_TERM = 64  # characters; longer runs are noise (encoded data)
_MAX_POSITION = 16_383  # PostgreSQL's limit within one tsvector
_MAX_POSITIONS = 255  # ... and per term

_FILLERS = """
the a an of in to and or is was are were be been for on by with as at from that this these those it its which what who
whom whose when where how why do does did has have had not but can could may should would will i you he she we they my
your our their me us them there if so than then much many please tell about any
的 了 是 在 和 与 及 有 吗 呢 哪 什么 是什么 哪些 哪个 多少 是多少 怎么 如何 请问 可以 我们 你们 他们 一个
這個 什麼 是什麼 哪個 請問
"""

_lock = threading.Lock()
_stemmer = snowballstemmer.stemmer("english")


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """Of a word that stands between spaces or separators."""
    if not word.isascii() or not word.isalpha():
        return word.replace(",", "")[:MAX_TERM] if "," in word or "." in word else word[:MAX_TERM]
    with _lock:  # the stemmer keeps its working state on the instance
        return str(_stemmer.stemWord(word[:MAX_TERM]))


def normalise(text: str) -> str:
    """NFKC: full-width letters, ligatures and compatibility forms become the plain ones."""
    return unicodedata.normalize("NFKC", text)


def readable(text: str) -> str:
    """NFKC for text that people read: the full-width punctuation of Chinese stays as it was written."""
    return _NOT_WIDE_PUNCTUATION.sub(lambda match: normalise(match.group()), text)


def terms(text: str) -> list[str]:
    """The terms of a text, in order. Case and the width of letters do not matter."""
    found: list[str] = []
    for word in _WORD.findall(normalise(text).casefold()):
        if word.isascii() or not _IS_UNSPACED.match(word):
            # Long runs are noise, each seen once: not worth remembering.
            found.append(_term(word) if len(word) <= MAX_TERM else _term.__wrapped__(word))
        else:
            found.extend([word[i : i + 2] for i in range(max(1, len(word) - 1))])
    return found


# Terms of questions that carry no topic. Only queries drop them; the index keeps everything.
STOP_TERMS = frozenset(terms(_FILLERS))


def query_terms(text: str, limit: int = 64) -> list[str]:
    """Distinct terms of a question without its filler words; all of them when nothing else is left."""
    distinct = list(dict.fromkeys(terms(text)))
    return ([term for term in distinct if term not in STOP_TERMS] or distinct)[:limit]


def tsvector(found: list[str]) -> str:
    """A `tsvector` literal. Built here because PostgreSQL's own parser would split and drop terms of ours."""
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(found, start=1):
        kept = positions.setdefault(term, [])
        if len(kept) < _MAX_POSITIONS and position <= _MAX_POSITION:
            kept.append(position)
    return " ".join(f"{quoted(term)}:{','.join(map(str, at or [_MAX_POSITION]))}" for term, at in positions.items())


def quoted(term: str) -> str:
    """A term as it stands inside `tsvector` and `tsquery` literals. Terms hold letters and digits only."""
    return f"'{term}'"
