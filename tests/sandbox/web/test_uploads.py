"""Uploads from form to event (perplexity-web §14)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from sandbox.web.multipart import read_form
from tests.sandbox.web.listener import WebVisitor, is_challenge, records

CREATE = "/rest/uploads/create_upload_url?version=2.18&source=default"
BATCH = "/rest/uploads/batch_create_upload_urls?version=2.18&source=default"
PROCESS = "/rest/sse/attachment_processing/subscribe"
TEXT, PICTURE = b"hello \x00\xff\r\n--x there", b"\x89PNG\r\n\x1a\n...."


def announced(name: str, content: bytes, kind: str) -> dict[str, Any]:
    return {"content_type": kind, "file_size": len(content), "filename": name, "force_image": False,
            "source": "default"}  # fmt: skip


async def form_for(web: WebVisitor, name: str, content: bytes, kind: str = "text/plain") -> dict[str, Any]:
    answer = await web.send("POST", CREATE, json=announced(name, content, kind))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def store(
    web: WebVisitor, form: dict[str, Any], name: str, content: bytes, kind: str = "text/plain", **headers: str
) -> httpx.Response:
    file = {"file": (name, content, kind)}
    return await web.client.post(form["s3_bucket_url"], data=form["fields"], files=file, headers=headers)


async def events(web: WebVisitor, *names: str) -> list[dict[str, Any]]:
    answer = await web.send("POST", PROCESS, json={"file_uuids": list(names)})
    assert answer.status_code == 200, answer.text
    found = records(answer.text)
    assert found[-1].event == "end_of_stream"
    return [json.loads(record.data) for record in found[:-1]]


async def test_it_gives_a_form_takes_the_bytes_and_reads_the_document(web: WebVisitor) -> None:
    docs = web.as_("sandbox-docs-max")
    form = await form_for(docs, "a.txt", TEXT)
    assert (form["rate_limited"], form["error"]) == (False, None)
    assert list(form["fields"])[:2] == ["acl", "Content-Type"]
    assert form["fields"]["key"].split("/")[:3] == ["web", "direct-files", "attachments"]
    assert form["fields"]["key"].split("/")[4:] == [form["file_uuid"], "a.txt"]
    assert (await store(docs, form, "a.txt", TEXT)).status_code == 204
    [event] = await events(docs, form["file_uuid"])
    assert event["success"] is True
    assert event["file_uuid"] == form["file_uuid"]
    assert event["s3_url"].startswith(form["s3_object_url"])
    [upload] = (await web.control("/web/uploads"))["uploads"]
    assert (upload["received"], upload["filename"], upload["account"]) == (
        len(TEXT),
        "a.txt",
        "sandbox-docs-max",
    )


async def test_it_sends_pictures_to_the_other_storage(web: WebVisitor) -> None:
    form = await form_for(web, "a.png", PICTURE, "image/png")
    assert "image/upload" in form["s3_object_url"]
    answer = await store(web, form, "a.png", PICTURE, "image/png")
    assert answer.status_code == 200
    secure = answer.json()["secure_url"]
    assert "/private/s--5a9d8c1e--/v1800000000/user_uploads/" in secure
    assert answer.json()["moderation"][0]["status"] == "approved"


async def test_it_gives_several_forms_at_once(web: WebVisitor) -> None:
    files = {"one": announced("a.txt", TEXT, "text/plain"), "two": announced("b.png", PICTURE, "image/png")}
    answer = await web.send("POST", BATCH, json={"files": files})
    results = answer.json()["results"]
    assert set(results) == {"one", "two"}
    assert all("file_uuid" not in form for form in results.values())
    assert (await store(web, results["one"], "a.txt", TEXT)).status_code == 204


async def test_it_keeps_cloudflare_before_documents_today(web: WebVisitor) -> None:
    form = await form_for(web, "a.txt", TEXT)
    answer = await web.send("POST", PROCESS, json={"file_uuids": [form["file_uuid"]]})
    assert answer.status_code == 403
    assert is_challenge(answer)


async def test_it_cannot_read_what_was_never_stored(web: WebVisitor) -> None:
    form = await form_for(web, "a [sandbox:processing=works].txt", TEXT)
    assert [event["success"] for event in await events(web, form["file_uuid"])] == [False]


@pytest.mark.parametrize(
    ("manner", "seen"),
    [
        ("works", [(True, False)]),
        ("failed", [(False, False)]),
        ("tokens", [(True, True)]),
        ("silent", []),
        ("foreign", [(False, None), (True, False)]),
    ],
)
async def test_it_reads_a_document_as_its_name_says(
    web: WebVisitor, manner: str, seen: list[tuple[bool, bool | None]]
) -> None:
    name = f"a [sandbox:processing={manner}].txt"
    form = await form_for(web, name, TEXT)
    await store(web, form, name, TEXT)
    found = await events(web, form["file_uuid"])
    assert [(event["success"], event.get("token_limit_exceeded")) for event in found] == seen
    assert all(event["file_uuid"] == form["file_uuid"] for event in found[-1:])


def test_it_cuts_the_events_of_a_document(client: httpx.Client) -> None:
    session = {"cookie": "__Secure-next-auth.session-token=sandbox-max-a"}
    document = announced("a [sandbox:processing=cut].txt", TEXT, "text/plain")
    form = client.post(CREATE, json=document, headers=session).json()
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(PROCESS, json={"file_uuids": [form["file_uuid"]]}, headers=session)


async def test_it_can_block_one_document_of_an_account_that_may_read_them(web: WebVisitor) -> None:
    docs = web.as_("sandbox-docs-max")
    form = await form_for(docs, "a [sandbox:processing=blocked].txt", TEXT)
    assert is_challenge(await docs.send("POST", PROCESS, json={"file_uuids": [form["file_uuid"]]}))


@pytest.mark.parametrize(
    ("trouble", "check"),
    [
        ("error", lambda form: form["error"] == "boom"),
        ("limited", lambda form: form["rate_limited"] is True),
        ("missing", lambda form: "fields" not in form),
    ],
)
async def test_it_spoils_a_form_as_the_name_of_the_file_says(
    web: WebVisitor, trouble: str, check: Any
) -> None:
    assert check(await form_for(web, f"a [sandbox:upload={trouble}].txt", TEXT))
    assert not check(await form_for(web, "a.txt", TEXT))


async def test_it_refuses_to_store_as_the_name_of_the_file_says(web: WebVisitor) -> None:
    name = "a [sandbox:upload=refused].txt"
    answer = await store(web, await form_for(web, name, TEXT), name, TEXT)
    assert answer.status_code == 403
    assert "<Code>AccessDenied</Code>" in answer.text
    name = "a [sandbox:upload=rejected].png"
    form = await form_for(web, name, PICTURE, "image/png")
    answer = await store(web, form, name, PICTURE, "image/png")
    assert answer.json()["moderation"][0]["status"] == "rejected"


async def test_it_wants_the_fields_in_order_the_file_last_and_no_cookies(web: WebVisitor) -> None:
    form = await form_for(web, "a.txt", TEXT)
    fields = form["fields"]
    backwards = {**form, "fields": dict(reversed(fields.items()))}
    fewer = {**form, "fields": {name: fields[name] for name in fields if name != "policy"}}
    unknown = {**form, "fields": {**fields, "key": "a/b/c/d/e/f"}}
    for wrong in (backwards, fewer, unknown):
        assert (await store(web, wrong, "a.txt", TEXT)).status_code == 403
    assert (await store(web, form, "a.txt", TEXT, cookie="a=b")).status_code == 403
    assert (await store(web, form, "a.txt", TEXT + b"!")).status_code == 400
    assert (await store(web, form, "a.txt", TEXT, "text/csv")).status_code == 400
    assert (await web.client.post(form["s3_bucket_url"], data=fields)).status_code == 400
    assert (await store(web, form, "a.txt", TEXT)).status_code == 204


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        (CREATE, {}, 422),
        (CREATE, [], 400),
        (CREATE, {**announced("a", TEXT, "text/plain"), "file_size": "7"}, 422),
        (CREATE, {**announced("a", TEXT, "text/plain"), "file_size": True}, 422),
        (CREATE.replace("2.18", "2.1"), announced("a", TEXT, "text/plain"), 400),
        (CREATE.partition("?")[0], announced("a", TEXT, "text/plain"), 400),
        (BATCH, {"files": {}}, 400),
        (BATCH, {"files": {"a": {}}}, 422),
        (PROCESS, {"file_uuids": []}, 400),
    ],
)
async def test_it_refuses_a_request_for_an_upload_that_makes_no_sense(
    web: WebVisitor, path: str, given: Any, status: int
) -> None:
    assert (await web.send("POST", path, json=given)).status_code == status


async def test_it_stores_for_the_logged_in_alone(web: WebVisitor) -> None:
    for token in ("", "sandbox-expired-max"):
        answer = await web.as_(token).send("POST", CREATE, json=announced("a", TEXT, "text/plain"))
        assert answer.status_code == 401


def test_it_reads_forms_and_nothing_else() -> None:
    assert list(read_form("text/plain", b"a")) == []
    assert list(read_form("multipart/form-data", b"a")) == []
    body = b"--b\r\nno head\r\n--b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n2\r\n--b--\r\n"
    [part] = read_form("multipart/form-data; boundary=b", body)
    assert (part.name, part.content, part.filename) == ("x", b"1\r\n2", None)
