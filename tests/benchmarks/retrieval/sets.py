"""Question sets with relevance judgements: any `{docs, queries, qrels}` file, and the one over the demo world."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from placet.knowledge import parse_worker
from placet.knowledge.chunking import chunks_of
from placet.knowledge.parser import readable_document

SEEDS = Path(__file__).parents[3] / "seeds" / "knowledge"
QUESTIONS = Path(__file__).parent / "questions.json"


@dataclass(frozen=True, slots=True)
class Doc:
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """`language` is that of question and text, or `en>zh` where they differ. Every question has something relevant."""

    name: str
    language: str
    docs: Mapping[str, Doc]
    queries: Mapping[str, str]
    relevant: Mapping[str, frozenset[str]]

    def sample(self, most: int) -> QuestionSet:
        """The same `most` questions each time."""
        chosen = sorted(self.queries)
        random.Random(1).shuffle(chosen)
        return replace(self, queries={key: self.queries[key] for key in sorted(chosen[:most])})


def read(path: Path) -> QuestionSet:
    """`{"docs": {id: {"title", "text"}}, "queries": {id: text}, "qrels": {id: [doc ids] or {doc id: grade}}}`."""
    data = json.loads(path.read_text("utf-8"))
    docs = {key: Doc(doc.get("title", ""), doc["text"]) for key, doc in data["docs"].items()}
    relevant = {key: _relevant(judged) & docs.keys() for key, judged in data["qrels"].items()}
    queries = {key: text for key, text in data["queries"].items() if relevant.get(key)}
    return QuestionSet(path.stem, _pair(queries.values(), docs.values()), docs, queries, relevant)


def of_directory(directory: Path) -> list[QuestionSet]:
    return [read(path) for path in sorted(directory.glob("*.json"))]


def over_seeds() -> list[QuestionSet]:
    """60 questions that avoid the words of what answers them, 15 for each pair of languages.

    The documents say everything in both languages, so each set searches the passages of one language alone: else the
    passage in the question's own language would hide how well the other one is found.
    """
    passages = list(_passages())
    asked = json.loads(QUESTIONS.read_text("utf-8"))
    sets = []
    for pair in sorted({question["id"].rsplit("-", 1)[0] for question in asked}):
        of, to = pair.split("-")
        docs = {chunk_id: doc for chunk_id, language, doc in passages if language == to}
        chosen = [question for question in asked if question["id"].startswith(pair)]
        relevant = {question["id"]: _answering(question, docs) for question in chosen}
        queries = {question["id"]: question["question"] for question in chosen}
        language = of if of == to else f"{of}>{to}"
        sets.append(QuestionSet("seeds", language, docs, queries, relevant))
    return sets


def _answering(question: Mapping[str, str], docs: Mapping[str, Doc]) -> frozenset[str]:
    prefix = f"{question['document']}:"
    found = frozenset(key for key, doc in docs.items() if key.startswith(prefix) and question["holds"] in doc.text)
    if not found:
        raise ValueError(f"no passage answers {question['id']}")
    return found


def _passages() -> Iterator[tuple[str, str, Doc]]:
    """Chunk id, language and text of every passage in one language of the demo company's published documents."""
    manifest: dict[str, Sequence[dict[str, Any]]] = json.loads((SEEDS / "manifest.json").read_text("utf-8"))
    for entry in manifest["documents"]:
        if entry["tenant"] != "acme" or entry["status"] != "published":
            continue
        file = SEEDS / entry["file"]
        parsed = readable_document(parse_worker.parse(file.name, file.read_bytes()))
        for chunk in chunks_of(entry["id"], 1, parsed):
            if _mixed(chunk.body):
                continue
            language = _language(chunk.body)
            halves = entry["title"].split(" / ")
            title = halves[0] if language == "zh" else halves[-1]
            yield chunk.chunk_id, language, Doc(f"{title}\n{chunk.section or ''}".strip(), chunk.body)


def _relevant(judged: Any) -> frozenset[str]:
    if isinstance(judged, dict):
        return frozenset(key for key, grade in judged.items() if grade > 0)
    return frozenset(judged)


def _pair(queries: Any, docs: Any) -> str:
    asked = _language(" ".join(list(queries)[:50]))
    told = _language(" ".join(doc.text for doc in list(docs)[:20]))
    return asked if asked == told else f"{asked}>{told}"


def _language(text: str) -> str:
    """Chinese where a tenth of the characters are: English names stand in Chinese text, not the other way round."""
    return "zh" if sum("\u4e00" <= character <= "\u9fff" for character in text) * 10 > len(text) else "en"


def _mixed(text: str) -> bool:
    """Several English words in a row beside Chinese."""
    return _language(text) == "zh" and re.search(r"(?:[a-z]+ ){4}", text) is not None
