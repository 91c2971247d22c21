"""Taking Chinese and English text apart: clauses, sentences, and the terms by which texts are compared."""

from __future__ import annotations

import re

# A comma inside a number ("4,800") and a point inside one ("129.90") end no clause.
_CLAUSE = re.compile(r"[，;；。!！?？\n]|\s[-–—]+\s|(?<!\d),|,(?!\d{3}(?!\d))|\.(?!\d)")
_SENTENCE_END = re.compile(r"(?<=[。！？!?])|(?<=\.)(?=\s)|\n")
_WORD = re.compile(r"[a-z0-9]+(?:[.&'-][a-z0-9]+)*")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")

# Words that say how something is asked, not what about.
_ENGLISH_NOISE = frozenset(
    re.findall(
        r"\S+",
        """
        a about also am an and any are as at be been but by can could did do does for from give had has have hi how i if
        in into is it its just know many may me much must my need no not of on once or our please remember say says
        should so some tell than that the their them then there these they this to under up us was we were what what's
        when where which who whom why will with would you your
        """,
    )
)
_CHINESE_NOISE = re.compile(
    "请问一下|请问|告诉我|我想知道|我记得|我们|你们|他们|什么时候|是什么|有多少|是多少|多少钱|多少|什么|哪些|哪个|哪里|几个|怎么样|"
    "怎么|如何|为什么|是否|能否|可以|可不可以|有没有|吗|呢|吧|啊|的|了|是|在|和|与|我|你|请|那|这个|那个|公司|一个|关于|里面|里|有"
)


def clauses(text: str) -> list[str]:
    """The parts between commas and full stops, without the empty ones."""
    return [part.strip() for part in _CLAUSE.split(text) if part.strip()]


def sentences(text: str) -> list[str]:
    """Sentences with their own full stop; a line break ends one, too."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def _stem(word: str) -> str:
    """Enough to match singular with plural, a verb with its -s, -ed and -ing forms, "nightly" with "night"."""
    for ending, kept in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("ly", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + kept
            break
    return word.removesuffix("e") if len(word) > 3 else word


def terms(text: str) -> frozenset[str]:
    """What a text is about: stems of English words, pairs of neighbouring Chinese characters."""
    lowered = text.lower()
    found = {_stem(word) for word in _WORD.findall(lowered) if word not in _ENGLISH_NOISE}
    for run in _HAN_RUN.findall(_CHINESE_NOISE.sub("，", lowered)):
        found |= {run[i : i + 2] for i in range(len(run) - 1)} if len(run) > 1 else {run}
    return frozenset(found)


def coverage(asked: frozenset[str], told: frozenset[str]) -> float:
    """The share of `asked` that `told` speaks of, from 0 to 1."""
    return len(asked & told) / len(asked) if asked else 0.0


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut at the end with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
