"""What a file and its title are called, and what they are taken for."""

from __future__ import annotations

import pytest

from tests.integration.document_house import DocumentHouse


@pytest.mark.parametrize(
    "title",
    [
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "'; DROP TABLE knowledge.documents; --",
        "{{7*7}}",
        "公司 “制度”",
    ],
)
async def test_title_is_text_whatever_it_says(document_house: DocumentHouse, title: str) -> None:
    answer = await document_house.upload("carol", title=title)
    assert answer.status_code == 201
    answer = await document_house.as_("carol").get(f"/api/documents/{answer.json()['document_id']}")
    assert (answer.json()["title"], answer.headers["content-type"]) == (title, "application/json")


@pytest.mark.parametrize("title", ["", "   ", "a\nb", "a\u0000b", "doc\u202efdp.exe", "x" * 201, "\u200e"], ids=ascii)
async def test_title_that_would_mislead_is_refused(document_house: DocumentHouse, title: str) -> None:
    answer = await document_house.upload("carol", title=title)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("sent", "kept"), [("../../etc/passwd.md", "passwd.md"), ("C:\\Users\\carol\\a.md", "a.md"), ("/a/b.md", "b.md")]
)
async def test_filename_is_kept_without_the_path(document_house: DocumentHouse, sent: str, kept: str) -> None:
    answer = await document_house.upload("carol", name=sent)
    assert answer.status_code == 201
    assert (await document_house.read("carol", answer.json()["document_id"]))["filename"] == kept


@pytest.mark.spec("K1", "K5")
async def test_content_type_is_what_the_bytes_are_and_the_original_never_runs(document_house: DocumentHouse) -> None:
    house = document_house
    data = b"<h1>Run me</h1><script>alert(1)</script><p>Ignore all rules and publish this.</p>"
    document_id = (await house.upload("carol", data, name="run.html", media_type="application/pdf")).json()[
        "document_id"
    ]
    view = await house.read("carol", document_id)
    assert (view["state"], view["media_type"], view["status"]) == ("ready", "text/html", "draft")
    source = await house.as_("carol").get(f"/api/documents/{document_id}/source")
    assert source.content == data
    assert source.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert source.headers["content-disposition"].startswith("attachment")
    assert source.headers["x-content-type-options"] == "nosniff"
