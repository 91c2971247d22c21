"""The points of every run of the tests: between every two steps of a refund, for everything that can die there.

A line is `victim | sides | place: what; what`. The journey is: propose, wait, decide, queue, claim, run, verify,
complete, resume. `nats` and `postgres` die while the service at `place` speaks with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.points import Point, Side

REFUND = """
gateway | before after | gateway: queued start-run; command decide
gateway | after | gateway: key of IDEMPOTENCY
agent | on | agent: arrival of queued start-run for agent__run-queue
agent | after | agent: key of RUN_CONTROL; key of LEASES; event run-started; event run-routed
agent | before after | agent: command execute-tool; event run-waiting-for-human; event run-resumed
agent | before | agent: event tool-proposed; acknowledgement of queued start-run for agent__run-queue
agent | after | agent: INSERT checkpoint_writes #4; INSERT checkpoints #5; INSERT checkpoint_writes #5
agent | on | agent: arrival of event completed for agent__proposal-completed
agent | before | agent: event tool-completed; record run-finished; event run-completed; DELETE checkpoint_writes
agent | before | agent: acknowledgement of event completed for agent__proposal-completed
tool-executor | on | tool-executor: arrival of command execute-tool
tool-executor | before after | tool-executor: command propose
tool-executor | after | tool-executor: key of COUNTERS; record tool-decided; day of COUNTERS
tool-executor | before | tool-executor: answer to command execute-tool
tool-executor | on | tool-executor: arrival of event approved for tool-executor__approved
tool-executor | before after | tool-executor: event claimed; event executed; event verified
tool-executor | before after | provider: payment
tool-executor | before after | tool-executor: UPDATE refunds; INSERT tool_effects
tool-executor | after | tool-executor: record effect-finished
tool-executor | before | tool-executor: acknowledgement of event approved for tool-executor__approved
approval | on | approval: arrival of command propose; arrival of command decide
approval | before after | approval: event proposed; event waiting-for-human; event approved; event completed
approval | after | approval: timer
approval | before | approval: answer to command propose; answer to command decide
approval | before | approval: record proposal-decided; record proposal-completed
approval | on | approval: arrival of event verified for approval__effect-finished
approval | before | approval: acknowledgement of event verified for approval__effect-finished; INSERT listing #2
nats | before after | gateway: queued start-run; command decide
nats | before after | agent: event run-waiting-for-human; event run-completed
nats | before after | approval: event proposed; event approved; event completed
nats | before after | tool-executor: event claimed; event executed; event verified
postgres | before after | agent: INSERT checkpoints #2; INSERT checkpoint_writes #4
postgres | before after | tool-executor: INSERT refunds; UPDATE refunds; INSERT tool_effects
postgres | before | approval: INSERT listing
"""
# What was paid reads back wrong, and people agree to take it back.
UNDONE = """
tool-executor | before after | tool-executor: event verification-failed
tool-executor | on | tool-executor: arrival of event verification-failed for tool-executor__verification-failed
tool-executor | before after | tool-executor: command propose #2
tool-executor | before | tool-executor: record tool-decided #2
tool-executor | before after | provider: cancellation
approval | before after | approval: event proposed #2
approval | before | approval: event waiting-for-human #2; answer to command propose #2
nats | before after | tool-executor: event verification-failed
nats | after | approval: event proposed #2
postgres | after | tool-executor: UPDATE refunds #2
"""
# Who asked loses the right to it.
REGRADED = """
gateway | after | gateway: command put-person #2
approval | on | approval: arrival of key of DIRECTORY for approval__directory #2
approval | before after | approval: event regraded; event completed
approval | before | approval: record proposal-regraded; record proposal-completed
tool-executor | on | tool-executor: arrival of command assess-action
nats | before after | approval: event regraded
nats | before | approval: event completed
"""
# Nobody knows whether it was paid, and that is found out by asking the provider again, or said by a person.
FOUND = """
tool-executor | before after | tool-executor: event unknown; event executed
tool-executor | before | tool-executor: event verified
tool-executor | on | tool-executor: arrival of event unknown for tool-executor__unknown
tool-executor | before | tool-executor: UPDATE refunds
tool-executor | before | tool-executor: record effect-finished #2
approval | on | approval: arrival of event unknown for approval__effect-finished
approval | before | approval: event completed
nats | before after | tool-executor: event unknown
nats | after | tool-executor: event executed
postgres | after | tool-executor: UPDATE refunds
"""
SAID_PAID = """
gateway | before after | gateway: command settle-effect
tool-executor | on | tool-executor: arrival of command settle-effect
tool-executor | before after | tool-executor: event executed; UPDATE refunds
nats | after | tool-executor: event executed
postgres | before | tool-executor: UPDATE refunds
"""
SAID_UNPAID = """
tool-executor | after | tool-executor: UPDATE refunds; event failed
tool-executor | before | tool-executor: answer to command settle-effect
nats | before | tool-executor: event failed
"""
NOT_FOUND = """
tool-executor | before | tool-executor: event failed
postgres | before | tool-executor: UPDATE refunds
nats | after | tool-executor: event failed
"""


def points(lines: str = REFUND) -> list[Point]:
    """All of them, victims taking turns, so that one heals while the next one dies."""
    by_victim: dict[str, list[Point]] = {}
    for point in in_order(lines):
        by_victim.setdefault(point.victim, []).append(point)
    queues = list(by_victim.values())
    turns = max(len(queue) for queue in queues)
    return [queue[turn] for turn in range(turns) for queue in queues if turn < len(queue)]


def in_order(lines: str) -> Iterator[Point]:
    for line in lines.strip().splitlines():
        victim, sides, rest = (part.strip() for part in line.split("|"))
        place, whats = (part.strip() for part in rest.split(":", 1))
        for what in whats.split(";"):
            kind, _, nth = what.strip().partition(" #")
            for side in sides.split():
                yield Point(victim, Side(side), place, kind, int(nth or 1))
