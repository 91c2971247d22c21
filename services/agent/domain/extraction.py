"""Ids, amounts and reasons in what a person wrote, in Chinese and English."""

from __future__ import annotations

import re

from services.agent.domain.language import language_of, pick
from services.agent.domain.text import clauses, shorten

_BEFORE, _AFTER = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_PLAIN_ID = re.compile(rf"{_BEFORE}([A-Za-z])(\d{{3,}}){_AFTER}")
_NAMED_ORDER = re.compile(
    rf"(?:orders?|订单)\s*(?:number|no\.?|id|号码|编号|号)?\s*[:：#]?\s*([A-Za-z]{{0,4}}-?\d{{3,}}){_AFTER}",
    re.IGNORECASE,
)
_NAMED_CUSTOMER = re.compile(
    rf"(?:customers?|clients?|客户|顾客)\s*(?:number|no\.?|id|编号|号)?\s*[:：#]?\s*([A-Za-z]{{0,4}}-?\d{{3,}}){_AFTER}",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(rf"{_BEFORE}(doc-[A-Za-z0-9_-]*[A-Za-z0-9]){_AFTER}", re.IGNORECASE)
_VERSION = re.compile(
    r"(?:version|ver\.?|edition|版本|第|v)\s*(\d{1,3}|[一二三四五六七八九十])(?:\s*版)?", re.IGNORECASE
)
_ORDINAL = re.compile(r"\b(first|second|third|fourth|fifth)\s+(?:version|edition)", re.IGNORECASE)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_CHINESE_DIGITS = {digit: number for number, digit in enumerate("一二三四五六七八九十", start=1)}

_NUMBER = r"(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?)"
_CURRENCY = r"(?:CNY|RMB|USD|EUR|[¥￥$€]|人民币)"
_UNIT = r"(?:元|块钱?|圆|yuan|CNY|RMB|USD|EUR|dollars?|euros?)"
_MARKED = re.compile(rf"{_CURRENCY}\s*{_NUMBER}|{_NUMBER}\s*{_UNIT}", re.IGNORECASE)
_BARE = re.compile(
    rf"(?<![A-Za-z0-9_.:/-]){_NUMBER}(?![\d.:/%-]*\d|\s*(?:%|percent|days?|hours?|weeks?|months?|items?|pieces?|pcs|am\b|pm\b|天|日|"
    r"次|件|个|号|月|年|小时|版|％))",
    re.IGNORECASE,
)

_BECAUSE = re.compile(
    r"(?:because(?: of)?|since|reason(?: is|:)?|due to|as the|原因是|原因[:：]|理由是|理由[:：]|因为|由于)\s*[:：]?\s*",
    re.IGNORECASE,
)
_ABOUT_REQUEST = re.compile(
    r"refund|pay back|money back|cancel|please|thanks|thank you|i want|i need|can you|could you|amount|full|"
    r"退款|退钱|退货|退还|取消|请|谢谢|麻烦|帮我|帮忙|全额|金额",
    re.IGNORECASE,
)
_REASON_LIMIT = 300


def order_ids(text: str) -> list[str]:
    """Order ids in the order they are written, upper case, each once."""
    named = [match.group(1) for match in _NAMED_ORDER.finditer(text)]
    customers = set(customer_ids(text))
    plain = [match.group(0) for match in _PLAIN_ID.finditer(text) if match.group(1).upper() in "AO"]
    return list(dict.fromkeys(found.upper() for found in (*named, *plain) if found.upper() not in customers))


def customer_ids(text: str) -> list[str]:
    named = [match.group(1) for match in _NAMED_CUSTOMER.finditer(text)]
    plain = [match.group(0) for match in _PLAIN_ID.finditer(text) if match.group(1).upper() == "C"]
    return list(dict.fromkeys(found.upper() for found in (*named, *plain)))


def document_id(text: str) -> str | None:
    match = _DOCUMENT.search(text)
    return match.group(1).lower() if match else None


def version_number(text: str) -> int | None:
    """The version somebody asks for: "version 1", "v2", 「第一版」."""
    without_ids = _DOCUMENT.sub(" ", text)
    if ordinal := _ORDINAL.search(without_ids):
        return _ORDINALS[ordinal.group(1).lower()]
    match = _VERSION.search(without_ids)
    if match is None:
        return None
    found = match.group(1)
    return int(found) if found.isdigit() else _CHINESE_DIGITS[found]


def amount(text: str) -> int | float | None:
    """The sum of money meant: one with a currency if there is one, else the first number that is nothing else."""
    rest = _without_ids(text)
    match = _MARKED.search(rest) or _BARE.search(rest)
    if match is None:
        return None
    written = next(group for group in match.groups() if group)
    number = float(written.replace(",", ""))
    return int(number) if number.is_integer() else number


def reason(text: str) -> str | None:
    """Why the person asks: what follows "because", else the clauses that are neither request, id nor amount."""
    for clause in clauses(text):
        if match := _BECAUSE.search(clause):
            told = clause[match.end() :].strip()
            if told:
                return shorten(told, _REASON_LIMIT)
    told = pick(language_of(text), "，", ", ").join(clause for clause in clauses(text) if _tells_why(clause))
    return shorten(told, _REASON_LIMIT) or None


def _tells_why(clause: str) -> bool:
    if _ABOUT_REQUEST.search(clause):
        return False
    rest = _without_ids(clause)
    rest = _MARKED.sub(" ", rest)
    rest = _BARE.sub(" ", rest)
    return len(re.findall(r"[A-Za-z]{2,}|[\u3400-\u9fff]", rest)) >= 2


def _without_ids(text: str) -> str:
    for pattern in (_NAMED_ORDER, _NAMED_CUSTOMER, _DOCUMENT, _PLAIN_ID):
        text = pattern.sub(" ", text)
    return text
