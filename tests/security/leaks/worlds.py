"""Random companies for the leak tests, and who may read what in them, by rules written down a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from placet.knowledge.models import Acl, KnowledgeScope
from placet.knowledge.store import KnowledgeStore
from tests.integration.knowledge_world import add_base, add_document

ROLES, TEAMS, USERS = ("r1", "r2", "r3"), ("t1", "t2"), ("u1", "u2", "u3")
TOPIC = "gate code"
_TOPICS = ("gate code", "大门密码", "travel limit")


def canary_of(number: int) -> str:
    """A word that stands in one document and nowhere else."""
    return f"zq{number:02d}kestrel"


@dataclass(frozen=True)
class Paper:
    """One document of two passages, each with its canary."""

    number: int
    base: int
    own: Acl
    published: bool
    words: str

    @property
    def document_id(self) -> str:
        return f"doc-{self.number}"

    @property
    def canary(self) -> str:
        return canary_of(self.number)

    @property
    def text(self) -> str:
        return f"# Part one\n\n{self.words} {self.canary}.\n\n# Part two\n\n{TOPIC} {self.canary} {self.number}."


@dataclass(frozen=True)
class World:
    """One tenant."""

    bases: tuple[Acl, ...]
    papers: tuple[Paper, ...]

    def readable(self, who: KnowledgeScope) -> list[Paper]:
        return [paper for paper in self.papers if paper.published and self._open(who, paper)]

    def hidden(self, who: KnowledgeScope) -> list[Paper]:
        return [paper for paper in self.papers if not (paper.published and self._open(who, paper))]

    def listed(self, who: KnowledgeScope) -> list[Paper]:
        """Owners of a base or a document see its drafts as well."""
        mine = [p for p in self.papers if who.user in (self.bases[p.base].owner, p.own.owner) or p.published]
        return [paper for paper in mine if self._open(who, paper)]

    def open_to(self, who: KnowledgeScope) -> list[Paper]:
        """Published or not."""
        return [paper for paper in self.papers if self._open(who, paper)]

    def _open(self, who: KnowledgeScope, paper: Paper) -> bool:
        base = self.bases[paper.base]
        named = bool(base.roles or base.teams)
        enters = base.owner == who.user or (named and _listed(who, base))
        return enters and (paper.own.owner == who.user or _listed(who, paper.own))


def _listed(who: KnowledgeScope, acl: Acl) -> bool:
    return (
        (not acl.roles or bool(acl.roles & who.roles))
        and (not acl.teams or bool(acl.teams & who.teams))
        and acl.clearance <= who.clearance
    )


def _some(names: Sequence[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), max_size=2)


def _acls(*, open_too: bool) -> st.SearchStrategy[Acl]:
    narrow = st.builds(
        Acl, roles=_some(ROLES), teams=_some(TEAMS), clearance=st.integers(0, 2), owner=st.sampled_from((None, *USERS))
    )
    return st.one_of(st.just(Acl()), narrow) if open_too else narrow


@st.composite
def worlds(draw: st.DrawFn) -> World:
    bases = draw(st.lists(_acls(open_too=False), min_size=1, max_size=4))
    papers = tuple(
        Paper(
            number,
            draw(st.integers(0, len(bases) - 1)),
            draw(_acls(open_too=True)),
            draw(st.sampled_from((True, True, True, False))),
            draw(st.sampled_from(_TOPICS)),
        )
        for number in range(draw(st.integers(2, 7)))
    )
    return World(tuple(bases), papers)


def people() -> st.SearchStrategy[tuple[str, frozenset[str], frozenset[str], int]]:
    """User, roles, teams, clearance: among them people who are nobody and names made to break out of an array."""
    return st.tuples(
        st.sampled_from((*USERS, "stranger", "", "u1,u2", 'u"1')),
        st.frozensets(st.sampled_from((*ROLES, 'r1"', "{r1}", "r1,r2")), max_size=3),
        _some(TEAMS),
        st.integers(-1, 3),
    )


async def build(store: KnowledgeStore, tenant: str, world: World, papers: Sequence[Paper]) -> None:
    """`papers` of `world`, and its bases, as `tenant`."""
    for number, acl in enumerate(world.bases):
        await add_base(store, tenant, f"kb-{number}", **_fields(acl))
    for paper in papers:
        await add_document(
            store,
            tenant,
            paper.document_id,
            paper.text,
            base_id=f"kb-{paper.base}",
            publish=paper.published,
            **_fields(paper.own),
        )


def _fields(acl: Acl) -> dict[str, object]:
    return {"roles": acl.roles, "teams": acl.teams, "clearance": acl.clearance, "owner": acl.owner}
