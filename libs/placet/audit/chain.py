"""The chain of seals over a stream: pure, the same for whoever makes it and for whoever checks it.

A seal holds one hash per event and is hashed over the seal before it, so a change, a removal, an insertion or another
order anywhere shows at the first event that is not what was sealed. That the chain itself was not made anew is what
the signature on every seal is for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

from placet.contracts.audit import Sealed
from placet.contracts.stored import StoredBytes

GENESIS = "0" * 64
MOST_EVENTS = 512  # per seal: 21 KiB of hashes
LEAF_BYTES = 32
HOLE = bytes(LEAF_BYTES)

_LEAF = b"placet-audit-leaf-v1\n"
_ROOT = b"placet-audit-seal-v1\n"


def leaf(event: StoredBytes) -> bytes:
    """Binds content, subject and place: the same bytes elsewhere have another leaf."""
    return hashlib.sha256(_LEAF + f"{event.seq}\n{event.subject}\n".encode() + event.payload).digest()


def link(stream: str, previous: Sealed | None, events: Sequence[StoredBytes]) -> Sealed:
    """The seal after `previous` over the next events of the stream; `events` must not be empty, and be in order.

    Takes at most `MOST_EVENTS` sequences. Where nothing lies any more a hole is sealed: it was one at that time.
    """
    first = previous.to_seq + 1 if previous else 1
    last = min(events[-1].seq, first + MOST_EVENTS - 1)
    by_seq = {event.seq: leaf(event) for event in events if first <= event.seq <= last}
    leaves = b"".join(by_seq.get(seq, HOLE) for seq in range(first, last + 1))
    number, before = (previous.number + 1, previous.root) if previous else (1, GENESIS)
    return Sealed(
        stream=stream,
        number=number,
        from_seq=first,
        to_seq=last,
        count=len(by_seq),
        previous=before,
        root=_root(stream, number, first, last, before, leaves),
        leaves=base64.b64encode(leaves).decode(),
    )


def leaves_of(seal: Sealed) -> list[bytes]:
    """One hash per sequence; none at all for a seal that does not fit together (whoever signed it)."""
    try:
        joined = base64.b64decode(seal.leaves, validate=True)
    except (binascii.Error, ValueError):
        return []
    leaves = [joined[at : at + LEAF_BYTES] for at in range(0, len(joined), LEAF_BYTES)]
    fits = (
        len(joined) == LEAF_BYTES * (seal.to_seq - seal.from_seq + 1)
        and sum(one != HOLE for one in leaves) == seal.count
        and seal.root == _root(seal.stream, seal.number, seal.from_seq, seal.to_seq, seal.previous, joined)
    )
    return leaves if fits else []


def follows(seal: Sealed, previous: Sealed | None) -> bool:
    """Whether the seal is the next link after `previous` (None: the first one of its stream)."""
    if previous is None:
        return (seal.number, seal.from_seq, seal.previous) == (1, 1, GENESIS)
    expected = (previous.stream, previous.number + 1, previous.to_seq + 1, previous.root)
    return (seal.stream, seal.number, seal.from_seq, seal.previous) == expected


def _root(stream: str, number: int, first: int, last: int, previous: str, leaves: bytes) -> str:
    head = f"{stream}\n{number}\n{first}\n{last}\n{previous}\n".encode()
    return hashlib.sha256(_ROOT + head + leaves).hexdigest()
