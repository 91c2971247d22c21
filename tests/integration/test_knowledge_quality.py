"""How well the right passage is found: our own questions, which avoid the words of what answers them.

Row T14, which the specification names without words, is read here as: search finds what is asked for, in Chinese and
English, in the words of the text or in others.
"""

from __future__ import annotations

import pytest

from placet.testkit.postgres import PostgresRig
from tests.benchmarks.retrieval import sets
from tests.benchmarks.retrieval.running import run
from tests.integration.knowledge_world import new_tenant


@pytest.mark.spec("K2", "T14")
@pytest.mark.parametrize("language", ["en", "en>zh", "zh", "zh>en"])
async def test_search_over_the_demo_world_is_as_good_as_its_better_half_and_as_bm25(
    postgres_rig: PostgresRig, language: str
) -> None:
    (questions,) = (chosen for chosen in sets.over_seeds() if chosen.language == language)
    assert len(questions.queries) == 15
    outcome = await run(postgres_rig, questions, new_tenant())
    assert outcome.holds, outcome.by_kind
    assert outcome.by_kind["hybrid"].recall == 1.0
    assert outcome.by_kind["hybrid"].ndcg > outcome.by_kind["library"].ndcg + 0.4
