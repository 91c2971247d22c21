"""The demo's people, by the name under which `placet up` hands out their tokens."""

from __future__ import annotations

TENANT = "acme"

# name -> (tenant, user)
DEMO: dict[str, tuple[str, str]] = {
    **{
        user: (TENANT, user) for user in ("alice", "bob", "carol", "dave", "erin", "mike", "auditor", "directory_admin")
    },
    "globex_alice": ("globex", "alice"),
}
