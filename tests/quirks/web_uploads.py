"""perplexity-web §17, line 1: what goes wrong with uploads and with documents."""

from __future__ import annotations

from tests.quirks.row import Quirk

_UPLOADS = "proxy/protocol/web_uploads.py"
_UPLOAD_TESTS = "proxy/protocol/test_web_uploads.py"

QUIRKS = (
    Quirk(
        "web 1: upload form", "",
        f"{_UPLOADS}::CREATE_PATH", "create_upload_url", "create",
        "proxy/api/test_attachments.py::test_it_shows_a_picture_to_the_account_that_answers",
    ),
    Quirk(
        "web 1: storage, fields in the given order", "",
        f"{_UPLOADS}::read_form", "in fields.items() if", "in sorted(fields.items()) if",
        f"{_UPLOAD_TESTS}::test_it_keeps_the_fields_of_a_form_in_their_order",
    ),
    Quirk(
        "web 1: storage, without cookies of Perplexity", "",
        "proxy/upstream/attachments.py::_store",
        "data=dict(form.fields), files=part",
        'data=dict(form.fields), files=part, headers={"cookie": "__Secure-next-auth.session-token=x"}',
        "proxy/api/test_attachments.py::test_it_sends_no_cookie_to_the_storage_and_no_bytes_to_the_question",
    ),
    Quirk(
        "web 1: storage, a form that is refused", "upload=error",
        f"{_UPLOADS}::read_form", 'if value.get("error"):', "if False:",
        f"{_UPLOAD_TESTS}::test_it_sends_nothing_to_a_storage_that_is_none",
    ),
    Quirk(
        "web 1: storage, a form that is limited", "upload=limited",
        f"{_UPLOADS}::read_form", 'if value.get("rate_limited"):', "if False:",
        f"{_UPLOAD_TESTS}::test_it_sends_nothing_to_a_storage_that_is_none",
    ),
    Quirk(
        "web 1: storage, a form with members missing", "upload=missing",
        f"{_UPLOADS}::read_form", "if not whole or not", "if not",
        f"{_UPLOAD_TESTS}::test_it_sends_nothing_to_a_storage_that_is_none",
    ),
    Quirk(
        "web 1: storage, Cloudinary's moderation", "upload=rejected",
        f"{_UPLOADS}::read_stored", '.get("status") == "rejected"', '.get("status") == ""',
        f"{_UPLOAD_TESTS}::test_it_refuses_a_picture_that_its_storage_refuses",
    ),
    Quirk(
        "web 1: storage, Cloudinary's signature", "",
        f"{_UPLOADS}::read_stored", '_SIGNATURE.sub("/private/user_uploads/", url)', "url",
        f"{_UPLOAD_TESTS}::test_it_takes_the_signature_out_of_a_pictures_address",
    ),
    Quirk(
        "web 1: storage, a status that refuses", "upload=refused",
        f"{_UPLOADS}::read_stored", "if status not in (200, 201, 204):", "if False:",
        f"{_UPLOAD_TESTS}::test_it_believes_no_storage_that_refused",
    ),
    Quirk(
        "web 1: documents, read where that works", "processing=works docs",
        f"{_UPLOADS}::PROCESS_PATH", "attachment_processing/subscribe", "attachment_processing",
        "proxy/api/test_attachments.py::test_it_has_documents_read_where_perplexity_reads_them",
    ),
    Quirk(
        "web 1: documents, Cloudflare before the reading", "processing=blocked",
        "proxy/upstream/attachments.py::_why_unread",
        "if fault.kind in (FaultKind.BLOCKED, FaultKind.FORBIDDEN):", "if False:",
        "proxy/api/test_attachments.py::test_it_says_clearly_that_documents_cannot_be_read_today",
    ),
    Quirk(
        "web 1: documents, not read", "processing=failed",
        f"{_UPLOADS}::Reading.take", 'if value.get("success") is not True:', "if False:",
        f"{_UPLOAD_TESTS}::test_it_believes_a_reading_however_it_is_cut",
    ),
    Quirk(
        "web 1: documents, too long", "processing=tokens",
        f"{_UPLOADS}::Reading.take", 'if value.get("token_limit_exceeded"):', "if False:",
        f"{_UPLOAD_TESTS}::test_it_believes_a_reading_however_it_is_cut",
    ),
    Quirk(
        "web 1: documents, no record, or a body that is cut", "processing=silent processing=cut",
        f"{_UPLOADS}::Reading.end", "if not self._done:", "if False:",
        f"{_UPLOAD_TESTS}::test_it_believes_a_reading_however_it_is_cut",
    ),
    Quirk(
        "web 1: documents, records of others", "processing=foreign",
        f"{_UPLOADS}::Reading.take", 'if value.get("file_uuid") != self.file_id:', "if False:",
        f"{_UPLOAD_TESTS}::test_it_believes_a_reading_however_it_is_cut",
    ),
    Quirk(
        "web 1: documents, five minutes of waiting", "processing=waits",
        "proxy/upstream/attachments.py::_read",
        "asyncio.timeout(READING_SECONDS)", "asyncio.timeout(None)",
        "proxy/upstream/test_attachments.py::test_it_waits_for_no_reading_longer_than_a_minute",
    ),
)  # fmt: skip
