"""Steps that tests of single calls take on the governance rig."""

from __future__ import annotations

import pytest

from placet.contracts.errors import PlacetError
from tests.integration.governance_rig import GovernanceRig


async def refused(rig: GovernanceRig, *call: object, **extra: object) -> PlacetError:
    with pytest.raises(PlacetError) as caught:
        await rig.execute(*call, **extra)  # type: ignore[arg-type]
    return caught.value
