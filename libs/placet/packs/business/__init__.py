"""The business tool pack: orders, refunds, tickets, messages and read-only SQL, on PostgreSQL."""

from placet.packs.business.pack import BusinessPack


def pack() -> BusinessPack:
    """What the entry point `business` of the group `placet.tools` calls."""
    return BusinessPack()


__all__ = ["BusinessPack", "pack"]
