"""The registry: tools by name from packs that open and close together (T1)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from placet.contracts.tools import Sensitivity
from placet.toolkit import PackEnvironment, ToolContext, ToolResult, ToolSpec, registry
from placet.toolkit.registry import DuplicateToolError, ToolRegistry, discover


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Result(BaseModel):
    ok: bool


async def _handle(_: ToolContext, __: Any) -> ToolResult:
    return ToolResult({"ok": True})


class Pack:
    """A pack that writes down what happens to it."""

    def __init__(self, name: str, *tools: str, is_ready: bool = True, diary: list[str] | None = None) -> None:
        self.name = name
        self._tools = tools
        self._ready = is_ready
        self.diary = diary if diary is not None else []

    def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec(tool, tool, tool, Args, Result, _handle, Sensitivity.READ) for tool in self._tools]

    async def open(self, environment: PackEnvironment) -> None:
        self.diary.append(f"open {self.name}")

    async def ready(self) -> bool:
        return self._ready

    async def close(self) -> None:
        self.diary.append(f"close {self.name}")


class _Nothing:
    async def put(self, key: str, data: bytes) -> None:
        raise KeyError(key)

    async def get(self, key: str) -> bytes:
        raise KeyError(key)

    async def __call__(self, actor: object) -> dict[str, Any]:
        return {"visible": False}


ENVIRONMENT = PackEnvironment(database_url="postgresql://nobody@localhost/none", originals=_Nothing(), scope=_Nothing())


@pytest.mark.spec("T1")
def test_tools_of_all_packs_are_found_by_name() -> None:
    tools = ToolRegistry([Pack("business", "refund", "cancel"), Pack("knowledge", "search")])
    assert [tool.name for tool in tools] == ["refund", "cancel", "search"]
    found = tools.get("search")
    assert found is not None
    assert tools.pack_of("search") == "knowledge"
    assert tools.get("Search") is None
    assert tools.get("") is None


@pytest.mark.spec("T1")
def test_tool_declared_by_two_packs_is_refused_naming_both() -> None:
    with pytest.raises(DuplicateToolError, match=r"refund is declared by business and shadow"):
        ToolRegistry([Pack("business", "refund"), Pack("shadow", "refund")])


def test_tool_declared_twice_by_one_pack_is_refused() -> None:
    with pytest.raises(DuplicateToolError):
        ToolRegistry([Pack("business", "refund", "refund")])


async def test_packs_open_in_order_and_close_in_reverse() -> None:
    diary: list[str] = []
    tools = ToolRegistry([Pack("a", "one", diary=diary), Pack("b", "two", diary=diary)])
    await tools.open(ENVIRONMENT)
    await tools.close()
    assert diary == ["open a", "open b", "close b", "close a"]


async def test_registry_with_one_unready_pack_is_not_ready() -> None:
    assert await ToolRegistry([Pack("a", "one"), Pack("b", "two")]).ready()
    assert not await ToolRegistry([Pack("a", "one"), Pack("b", "two", is_ready=False)]).ready()


def _install(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    found = EntryPoints(EntryPoint(name, value, registry.GROUP) for name, value in entries.items())
    monkeypatch.setattr(registry, "entry_points", lambda group: found.select(group=group))


def make_ant() -> Pack:
    return Pack("ant", "one")


def make_zebra() -> Pack:
    return Pack("zebra", "two")


@pytest.mark.spec("T1")
def test_installed_packs_are_discovered_in_name_order(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, zebra=f"{__name__}:make_zebra", ant=f"{__name__}:make_ant")
    assert [pack.name for pack in discover()] == ["ant", "zebra"]


def test_pack_that_cannot_be_imported_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, good=f"{__name__}:make_ant", lost="no.such.module:pack")
    with pytest.raises(ModuleNotFoundError):
        discover()


@pytest.mark.spec("T1", "G10")
def test_built_in_packs_declare_the_tools_of_the_specification() -> None:
    names = {tool.name for tool in ToolRegistry(discover())}
    assert names >= {
        "search_knowledge",
        "get_document_source",
        "read_document_version",
        "create_publish_proposal",
        "apply_publish_decision",
        "query_business_data",
        "create_ticket",
        "add_order_note",
        "refund_payment",
        "cancel_order",
        "change_order",
        "send_message",
        "request_approval",
        "run_readonly_sql",
    }
