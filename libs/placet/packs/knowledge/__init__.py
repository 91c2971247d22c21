"""The knowledge tool pack: search, sources, versions and publishing, each within the reader's scope of the moment."""

from placet.packs.knowledge.pack import KnowledgePack


def pack() -> KnowledgePack:
    """What the entry point `knowledge` of the group `placet.tools` calls."""
    return KnowledgePack()


__all__ = ["KnowledgePack", "pack"]
