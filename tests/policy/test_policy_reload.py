"""Changed policies: a new revision, taken up while running, never mixed with the old one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.policy import NO_REVISION, Decision
from placet.policy.bundle import BUNDLE_NAME, PolicyFilesError, build_bundle, digest, read_policy_files
from placet.policy.cases import DecideRow, load_cases
from placet.policy.port import PolicyDecisionPoint
from placet.policy.rego import RegoPolicy

pytestmark = pytest.mark.spec("T3", "L1")

POLICIES = Path(__file__).resolve().parents[2] / "policies"
OpaOn = Callable[[Path], Awaitable[tuple[Any, PolicyDecisionPoint]]]

REFUND = "decisions: a small refund waits for one finance approver"


async def decide_refund(policy: PolicyDecisionPoint, policies: Path) -> Decision:
    case = next(case for case in load_cases(policies / "cases") if case.name == REFUND)
    assert isinstance(case.row, DecideRow)
    return await policy.decide(case.row.request(case.world))


def set_limit(policies: Path, amount: float) -> None:
    file = policies / "tables" / "limits" / "data.json"
    limits = json.loads(file.read_bytes())
    limits["second_person_above"]["amount"] = amount
    file.write_text(json.dumps(limits))


def revision_of(policies: Path) -> str:
    return digest(read_policy_files(policies))


@pytest.mark.parametrize("name", ["authz.rego", "tables/limits/data.json"])
def test_revision_of_a_changed_file_is_another(own_policies: Path, name: str) -> None:
    before = revision_of(own_policies)
    file = own_policies / name
    file.write_bytes(file.read_bytes() + b"\n")
    assert revision_of(own_policies) != before


def test_revision_of_a_renamed_file_is_another(own_policies: Path) -> None:
    before = revision_of(own_policies)
    (own_policies / "admin.rego").rename(own_policies / "admins.rego")
    assert revision_of(own_policies) != before


@pytest.mark.parametrize(
    "name", ["authz_test.rego", "cases/grants.json", "README.md", "cases/data.json", ".x/data.json"]
)
def test_revision_without_a_change_of_rules_stays(own_policies: Path, name: str) -> None:
    before = revision_of(own_policies)
    file = own_policies / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("changed")
    assert revision_of(own_policies) == before


def test_digest_of_content_moved_between_files_is_another() -> None:
    assert digest({"a": b"xy", "b": b""}) != digest({"a": b"x", "b": b"y"})
    assert digest({"ab": b"x"}) != digest({"a": b"bx"})


def test_bundle_of_the_same_files_has_the_same_bytes(policy_dir: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    assert build_bundle(policy_dir, first) == build_bundle(policy_dir, second) == revision_of(policy_dir)
    assert (first / BUNDLE_NAME).read_bytes() == (second / BUNDLE_NAME).read_bytes()
    assert os.listdir(first) == [BUNDLE_NAME]


def test_bundle_of_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyFilesError):
        build_bundle(tmp_path, tmp_path / "out")
    with pytest.raises(PolicyFilesError):
        build_bundle(tmp_path / "absent", tmp_path / "out")


async def test_embedded_engine_after_a_change_decides_anew(own_policies: Path) -> None:
    policy = await RegoPolicy.open(own_policies)
    before = await decide_refund(policy, own_policies)
    unchanged = await policy.refresh()
    set_limit(own_policies, 100)
    reload = await policy.refresh()
    after = await decide_refund(policy, own_policies)
    await policy.close()
    assert (unchanged.changed, reload.changed, reload.problem) == (False, True, None)
    assert (before.obligations.approvals, after.obligations.approvals) == (1, 2)
    assert after.policy_revision == reload.revision == revision_of(own_policies) != before.policy_revision


async def test_embedded_engine_after_a_broken_change_keeps_the_last_good_policy(own_policies: Path) -> None:
    policy = await RegoPolicy.open(own_policies)
    before = await policy.revision()
    (own_policies / "authz.rego").write_text("package placet.authz\n\ndecision := ")
    reload = await policy.refresh()
    decision = await decide_refund(policy, own_policies)
    ready = await policy.ready()
    await policy.close()
    assert not reload.changed
    assert reload.problem
    assert (decision.effect, decision.policy_revision, ready) == ("require_approval", before, True)


async def wait_for_revision(policy: PolicyDecisionPoint, revision: str) -> None:
    async with asyncio.timeout(60):
        while await policy.revision() != revision:
            await asyncio.sleep(0.02)


async def test_opa_after_new_bundles_never_mixes_rules_and_revisions(
    opa_on: OpaOn, own_policies: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    expected = {build_bundle(own_policies, served): 1}
    _, policy = await opa_on(served)
    seen: set[tuple[str, int]] = set()

    async def ask_on() -> None:
        while True:
            decision = await decide_refund(policy, own_policies)
            seen.add((decision.policy_revision, decision.obligations.approvals))

    asking = asyncio.create_task(ask_on())
    for turn in range(8):
        set_limit(own_policies, 100 + turn if turn % 2 else 1000 + turn)
        revision = build_bundle(own_policies, served)
        expected[revision] = 2 if turn % 2 else 1
        await wait_for_revision(policy, revision)
    asking.cancel()
    assert len(expected) == 9
    assert len(seen) > 4
    assert all(expected[revision] == approvals for revision, approvals in seen)


async def test_opa_after_a_broken_archive_keeps_the_last_good_policy(
    opa_on: OpaOn, own_policies: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    revision = build_bundle(own_policies, served)
    _, policy = await opa_on(served)
    (own_policies / "authz.rego").write_text("package placet.authz\n\ndecision := ")
    build_bundle(own_policies, served, checked=False)
    await asyncio.sleep(0.5)
    kept = await decide_refund(policy, own_policies)
    (own_policies / "authz.rego").write_bytes((POLICIES / "authz.rego").read_bytes())
    set_limit(own_policies, 100)
    await wait_for_revision(policy, build_bundle(own_policies, served))
    assert (kept.effect, kept.policy_revision) == ("require_approval", revision)


def test_bundle_of_policies_that_cannot_answer_is_not_written(own_policies: Path, tmp_path: Path) -> None:
    build_bundle(own_policies, tmp_path / "out")
    before = (tmp_path / "out" / BUNDLE_NAME).read_bytes()
    (own_policies / "authz.rego").write_text("package placet.authz\n\ndecision := ")
    with pytest.raises(PolicyFilesError):
        build_bundle(own_policies, tmp_path / "out")
    assert (tmp_path / "out" / BUNDLE_NAME).read_bytes() == before


async def test_embedded_engine_changed_under_load_never_mixes(own_policies: Path) -> None:
    policy = await RegoPolicy.open(own_policies)
    expected = {await policy.revision(): 1}
    seen: set[tuple[str, int]] = set()

    async def ask(times: int) -> None:
        for _ in range(times):
            decision = await decide_refund(policy, own_policies)
            seen.add((decision.policy_revision, decision.obligations.approvals))

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(ask(30))
        for turn in range(6):
            set_limit(own_policies, 100 + turn if turn % 2 else 1000 + turn)
            expected[revision_of(own_policies)] = 2 if turn % 2 else 1
            assert (await policy.refresh()).changed
            await asyncio.sleep(0.01)
    await policy.close()
    seen = {answer for answer in seen if answer[0] != NO_REVISION}  # too slow here, and so denied
    assert len(seen) > 2
    assert all(expected[revision] == approvals for revision, approvals in seen)
