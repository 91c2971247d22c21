"""Loads `seeds/`: people into the directory, orders and customers, documents with their originals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from placet.cli import places
from placet.cli.provisioning.database import role_url
from placet.cli.provisioning.settings import Settings
from placet.contracts.directory import Person
from placet.messaging.connection import Bus
from placet.messaging.kv import KeyConflictError, KeyValue


async def load(bus: Bus, settings: Settings) -> dict[str, int]:
    """How many of each are new. Whatever is there stays as people have left it since.

    Raises `NotHereError` without a `seeds/` directory, `ValueError` for one that cannot be read.
    """
    seeds = places.seeds_dir()
    people, business, documents = await asyncio.gather(
        _people(bus, seeds / "directory.json"),
        _business(settings, seeds / "business"),
        _documents(bus, settings, seeds),
    )
    return {"people": people, **business, "documents": documents}


async def _people(bus: Bus, file: Path) -> int:
    """Create each person who is not there yet: who was dismissed since the last start stays dismissed."""
    directory = KeyValue(bus, "DIRECTORY")
    document = json.loads(await asyncio.to_thread(file.read_text, encoding="utf-8"))
    created = 0
    for entry in document["people"]:
        person = Person.model_validate({name: value for name, value in entry.items() if name != "key"})
        try:
            await directory.create(f"{person.tenant}.{person.id}", person.model_dump_json().encode())
        except KeyConflictError:
            continue
        created += 1
    return created


async def _business(settings: Settings, path: Path) -> dict[str, int]:
    from placet.storage import create_engine, seed_business

    engine = create_engine(role_url(settings, "placet_owner"), pool_size=1, application="placet-provision")
    try:
        return await seed_business(engine, path)
    finally:
        await engine.dispose()


async def _documents(bus: Bus, settings: Settings, seeds: Path) -> int:
    """As the executor's role, whose row-level security the documents will be read under."""
    from placet.knowledge.embedders import embedder_of
    from placet.knowledge.seed import load as load_documents
    from placet.knowledge.store import KnowledgeStore
    from placet.messaging.objects import ObjectStore
    from placet.storage import Database

    database = Database.open(role_url(settings, "placet_executor"), pool_size=2, application="placet-provision")
    try:
        embedder = embedder_of(settings.pack_settings)
        store = KnowledgeStore(database, ObjectStore(bus, "ORIGINALS"), embedder)
        return await load_documents(store, seeds / "knowledge")
    finally:
        await database.close()
