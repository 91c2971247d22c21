"""A process that decides when it is told to: one line in (who decides what), one line out (how it went).

Who is told to try again does: on a busy machine policy may be too slow for one of fifty.

`python -m tests.integration.many_deciders <nats url> <seed file>`
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from placet.contracts.approvals import DecideProposal, DecisionResult
from placet.contracts.errors import PlacetError
from placet.messaging.connection import Bus, BusSettings
from placet.messaging.rpc import RpcClient
from placet.observability import logs


async def main(url: str, seed_file: str) -> None:
    seed = Path(seed_file).read_text(encoding="utf-8")
    bus = await Bus.connect(BusSettings(url, "gateway", seed))
    client = RpcClient(bus)

    async def decide(command: DecideProposal) -> str:
        try:
            await client.call("approval", "decide", command, DecisionResult, tenant="acme", timeout_s=30)
        except PlacetError as error:
            return await decide(command) if error.retryable else error.code.value
        return f"won by {command.decision.value}"

    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        commands = [DecideProposal.model_validate(fields) for fields in json.loads(line)]
        print(json.dumps(await asyncio.gather(*(decide(command) for command in commands))), flush=True)
    await bus.close()


if __name__ == "__main__":
    logs.configure("deciders", "ERROR")
    asyncio.run(main(*sys.argv[1:]))
