"""The language of a text: answers are given in the language of the question."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["zh", "en"]

_HAN = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")


def language_of(text: str) -> Language:
    """Chinese when it has more Chinese characters than English words, which also reads mixed questions right."""
    return "zh" if len(_HAN.findall(text)) > len(_LATIN_WORD.findall(text)) else "en"


def pick(language: Language, zh: str, en: str) -> str:
    return zh if language == "zh" else en
