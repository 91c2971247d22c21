"""A file's way from the HTTP door into the index, through every service (K1)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator

import pytest
from pydantic import BaseModel
from sqlalchemy import text

from placet.contracts.documents import BeginUpload, DocumentDraft, FinishUpload, UploadPart, UploadState
from placet.contracts.envelope import Command
from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.reading import EventReader
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from placet.storage import OWNER
from tests.integration.document_house import DocumentHouse

pytestmark = pytest.mark.spec("K1")


async def test_upload_becomes_a_draft_that_is_read_published_and_found(document_house: DocumentHouse) -> None:
    house = document_house
    answer = await house.upload("carol", b"# Kites\n\nKites may be flown on the roof on Fridays.\n", title="Kites")
    assert answer.status_code == 201
    draft = answer.json()
    assert draft == {"document_id": draft["document_id"], "version": 1, "status": "draft", "lock_version": 1}
    assert answer.headers["location"] == f"/api/documents/{draft['document_id']}"
    view = await house.read("carol", draft["document_id"])
    assert (view["state"], view["percent"], view["latest_version"], view["title"]) == ("ready", 100, 1, "Kites")
    assert draft["document_id"] not in await house.found("alice", "kites on the roof")
    assert (await house.publish("carol", draft["document_id"])).json()["finish_reason"] == "success"
    assert (await house.found("alice", "kites on the roof"))[0] == draft["document_id"]


async def test_upload_keeps_the_original_byte_for_byte_over_many_parts(document_house: DocumentHouse) -> None:
    data = b"<p>Short.</p><!-- " + b"".join(b"%08d" % n for n in range(140_000)) + b" -->"
    assert len(data) > 4 * 262_144
    draft = (await document_house.upload("carol", data, name="long.html")).json()
    source = await document_house.as_("carol").get(f"/api/documents/{draft['document_id']}/source?version=1")
    assert (source.status_code, source.content == data) == (200, True)
    view = await document_house.read("carol", draft["document_id"])
    assert (view["sha256"], view["size"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert (view["state"], view["media_type"], view["filename"]) == ("ready", "text/html", "long.html")


async def test_upload_of_a_new_version_raises_the_lock_version_and_leaves_the_published_one(
    document_house: DocumentHouse,
) -> None:
    house = document_house
    document_id = await house.published(b"# Moat\n\nThe moat is crossed by bridge one.\n")
    answer = await house.upload("carol", b"# Moat\n\nThe moat is crossed by bridge two.\n", document_id=document_id)
    assert answer.json() == {"document_id": document_id, "version": 2, "status": "draft", "lock_version": 3}
    view = await house.read("carol", document_id)
    assert (view["version"], view["status"], view["latest_version"], view["state"]) == (1, "published", 2, "ready")
    items = (await house.as_("alice").get("/api/search", params={"q": "moat bridge"})).json()["items"]
    assert [item["version"] for item in items if item["document_id"] == document_id] == [1]


async def test_upload_repeated_with_its_key_is_the_same_document(document_house: DocumentHouse) -> None:
    headers = {"Idempotency-Key": "one-upload"}
    first = await document_house.upload("carol", b"# Once\n\nOnly once.\n", headers=headers)
    again = await document_house.upload("carol", b"# Once\n\nOnly once.\n", headers=headers)
    assert (first.status_code, again.json()) == (201, first.json())
    other = await document_house.upload("carol", b"# Once\n\nOnly twice.\n", headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("empty.md", b"", "empty_file"),
        ("blank.txt", b" \n \n", "no_text"),
        ("tool.exe", b"MZ\x90\x00", "unsupported_type"),
        ("really-a-pdf.md", b"%PDF-1.7\n%%EOF", "type_mismatch"),
        ("broken.pdf", b"%PDF-1.7 no", "corrupt"),
        ("broken.txt", b"\xff\xfe\x00\xd8\x00", "bad_encoding"),
        ("old.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "encrypted"),
    ],
)
async def test_upload_of_a_bad_file_fails_with_a_reason_on_the_document(
    document_house: DocumentHouse, name: str, data: bytes, reason: str
) -> None:
    answer = await document_house.upload("carol", data, name=name)
    assert answer.status_code == 201
    view = await document_house.read("carol", answer.json()["document_id"])
    assert (view["state"], view["failure"]["reason"], view["status"]) == ("failed", reason, "draft")
    path = f"/api/documents/{view['document_id']}/publish-proposals"
    refused = await document_house.as_("carol").post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_upload_too_large_is_refused_whether_announced_or_not(document_house: DocumentHouse) -> None:
    data = b"x" * 3_100_000
    announced = await document_house.upload("carol", data)
    assert (announced.status_code, announced.json()["code"]) == (413, "payload_too_large")

    async def streamed() -> AsyncIterator[bytes]:
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        yield head
        for _ in range(31):
            yield b"x" * 100_000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    counted = await document_house.as_("carol").post("/api/documents", content=streamed(), headers=headers)
    assert (counted.status_code, counted.json()["code"]) == (413, "payload_too_large")


async def test_upload_takes_the_fields_of_a_form_in_any_order(document_house: DocumentHouse) -> None:
    form = (
        '--b\r\nContent-Disposition: form-data; name="file"; filename="订单.md"\r\nContent-Type: x/y\r\n\r\n'
        "# 订单\r\n\r\n正文。\r\n"
        '--b\r\nContent-Disposition: form-data; name="title"\r\n\r\n订单说明\r\n'
        '--b\r\nContent-Disposition: form-data; name="knowledge_base_id"\r\n\r\nkb-policies\r\n--b--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = await document_house.as_("carol").post("/api/documents", content=form.encode(), headers=headers)
    assert answer.status_code == 201
    view = await document_house.read("carol", answer.json()["document_id"])
    assert (view["title"], view["filename"], view["state"]) == ("订单说明", "订单.md", "ready")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"--b\r\nno form", "invalid_request"),
        (b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nT\r\n--b--\r\n', "invalid_request"),
        (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nText', "invalid_request"),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nText\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="b.md"\r\n\r\nText\r\n--b--\r\n',
            "invalid_request",
        ),
    ],
    ids=["no-form", "no-file", "broken-off", "two-files"],
)
async def test_upload_of_a_bad_form_is_refused(document_house: DocumentHouse, content: bytes, problem: str) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = await document_house.as_("carol").post("/api/documents", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, problem)


async def test_upload_progress_is_told_on_the_bus_and_on_the_record(document_house: DocumentHouse) -> None:
    document_id = (await document_house.upload("carol", b"# Told\n\nTold.\n")).json()["document_id"]
    await document_house.read("carol", document_id)
    bus = await document_house.governance.nats.bus("provision")  # nobody else may read this stream by itself
    names = [event.name for event in await EventReader(bus, "DOCUMENTS").entity("acme", "knowledge", document_id)]
    assert names[0] == "version-received"
    assert "version-progress" in names
    assert await _record(document_house, "documents.create", document_id) == ("carol", "ok")


async def _record(house: DocumentHouse, action: str, document_id: str) -> tuple[str | None, str]:
    page = await house.governance.audit(type="document-changed", limit=200)
    (entry,) = [
        entry.record
        for entry in page.items
        if entry.record.action == action and (entry.record.resource or {})["id"] == document_id
    ]
    return entry.actor, entry.outcome


async def _sql(house: DocumentHouse, statement: str, **values: object) -> None:
    async with house.governance.postgres.database(OWNER).transaction() as connection:
        await connection.execute(text(statement), values)


async def test_version_whose_job_was_lost_is_found_by_the_sweep(document_house: DocumentHouse) -> None:
    """A worker that died between the commit and the event, long enough ago."""
    house = document_house
    document_id = (await house.upload("carol", b"# Lost\n\nLost and found.\n")).json()["document_id"]
    await house.read("carol", document_id)
    await _sql(
        house,
        "INSERT INTO knowledge.versions (tenant, document_id, version, status, state, title, filename, media_type,"
        " original_key, sha256, size, authors, chunk_count, term_count, created_by, touched_at) SELECT tenant,"
        " document_id, 2, 'draft', 'received', title, filename, media_type, original_key, sha256, size, authors, 0, 0,"
        " created_by, now() - interval '10 minutes' FROM knowledge.versions WHERE document_id = :id",
        id=document_id,
    )
    await house.governance.executor.sweep.once()
    view = await house.read("carol", document_id)
    assert (view["latest_version"], view["state"]) == (2, "ready")


async def test_upload_that_nobody_finished_is_swept_with_its_parts(document_house: DocumentHouse) -> None:
    rig, client = document_house.governance, RpcClient(await document_house.governance.nats.bus("gateway"))
    data, upload_id = b"half of it", new_id("up")
    begin = BeginUpload(
        grant=rig.grant("carol"),
        upload_id=upload_id,
        knowledge_base_id="kb-policies",
        title="Half",
        filename="half.md",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    part = UploadPart(grant=rig.grant("carol"), upload_id=upload_id, index=0, data=base64.b64encode(data).decode())
    await client.call("tool-executor", "begin-upload", begin, UploadState, tenant="acme")
    state = await client.call("tool-executor", "upload-part", part, UploadState, tenant="acme")
    assert state.parts == 1
    await rig.executor.sweep.once()
    again = await client.call("tool-executor", "begin-upload", begin, UploadState, tenant="acme")
    assert again.parts == 1
    old = "UPDATE knowledge.uploads SET created_at = now() - interval '2 hours' WHERE upload_id = :id"
    await _sql(document_house, old, id=upload_id)
    await rig.executor.sweep.once()
    finish = FinishUpload(grant=rig.grant("carol"), upload_id=upload_id)
    with pytest.raises(PlacetError) as caught:
        await client.call("tool-executor", "finish-upload", finish, DocumentDraft, tenant="acme")
    assert caught.value.code is ErrorCode.NOT_FOUND
    again = await client.call("tool-executor", "begin-upload", begin, UploadState, tenant="acme")
    assert again.parts == 0


@pytest.mark.spec("R4", "I2")
async def test_upload_of_another_person_or_another_file_is_not_gone_on_with(document_house: DocumentHouse) -> None:
    rig, client = document_house.governance, RpcClient(await document_house.governance.nats.bus("gateway"))
    data, upload_id = b"mine", new_id("up")
    begin = BeginUpload(
        grant=rig.grant("carol"),
        upload_id=upload_id,
        knowledge_base_id="kb-policies",
        title="Mine",
        filename="mine.md",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    await client.call("tool-executor", "begin-upload", begin, UploadState, tenant="acme")

    async def refusal(name: str, command: Command, reply: type[BaseModel]) -> ErrorCode:
        with pytest.raises(PlacetError) as caught:
            await client.call("tool-executor", name, command, reply, tenant="acme")
        return caught.value.code

    part = UploadPart(grant=rig.grant("alice"), upload_id=upload_id, index=0, data=base64.b64encode(data).decode())
    assert await refusal("upload-part", part, UploadState) is ErrorCode.NOT_FOUND
    finish = FinishUpload(grant=rig.grant("alice"), upload_id=upload_id)
    assert await refusal("finish-upload", finish, DocumentDraft) is ErrorCode.NOT_FOUND
    other = begin.model_copy(update={"size": 5})
    assert await refusal("begin-upload", other, UploadState) is ErrorCode.NOT_FOUND
    wrong = part.model_copy(update={"grant": rig.grant("carol"), "data": base64.b64encode(b"mi").decode()})
    assert await refusal("upload-part", wrong, UploadState) is ErrorCode.INVALID_REQUEST
    early = wrong.model_copy(update={"index": 1})
    assert await refusal("upload-part", early, UploadState) is ErrorCode.CONFLICT
    forged = part.model_copy(update={"grant": rig.grant("carol"), "data": base64.b64encode(b"nine").decode()})
    await client.call("tool-executor", "upload-part", forged, UploadState, tenant="acme")
    done = FinishUpload(grant=rig.grant("carol"), upload_id=upload_id)
    assert await refusal("finish-upload", done, DocumentDraft) is ErrorCode.INVALID_REQUEST
    huge = begin.model_copy(update={"upload_id": new_id("up"), "size": 25_000_001})
    assert await refusal("begin-upload", huge, UploadState) is ErrorCode.PAYLOAD_TOO_LARGE
