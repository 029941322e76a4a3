"""The frames of one entry (perplexity-web §6): what is constant in them, what moves, and how they end."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from sandbox.scenarios import Script
from sandbox.web.ask_request import Ask
from sandbox.web.content import Content
from sandbox.web.preferences import AUTOMATIC, RESEARCH
from sandbox.web.shapes import Blocks, shape_of
from sandbox.web.stages import Stage
from sandbox.web.steplist import step_list
from sandbox.web.store import Entry

Frame = dict[str, Any]
_NAMESPACE = uuid.UUID("0c0b9d3a-59f7-4b3f-8f0f-5f0b2ad5d6f1")
_TOKENLESS = 2  # frames before the first one with a read_write_token
AUXILIARY = "gpt5_nano"


def thread_part(thread: str, part: str) -> str:
    """What is constant in a thread: its `context` uuid and its `token`."""
    return str(uuid.uuid5(_NAMESPACE, f"{thread}\n{part}"))


def upsell(name: str) -> Frame:
    """`upsell_information`, the only sign of a refusal (§12)."""
    login = name in ("fraud_authwall_upsell", "logged_out_thread_sign_in")
    return {
        "name": name,
        "upsell_type": "LOGIN" if login else "UPGRADE_TO_PRO",
        "title": "Sign in to continue" if login else "No advanced model uses left this week",
        "description": "Sign in" if login else "Upgrade",
        "cta": "Sign in" if login else "Upgrade",
    }


def _echo(entry: Entry, ask: Ask, content: Content) -> Frame:
    """What every frame repeats."""
    params = ask.params
    return {
        "backend_uuid": entry.id,
        "context_uuid": thread_part(entry.thread, "context"),
        "uuid": params.get("frontend_uuid") or entry.id,
        "frontend_uuid": params.get("frontend_uuid"),
        "frontend_context_uuid": params.get("frontend_context_uuid"),
        "thread_url_slug": entry.thread,
        "thread_title": content.title,
        "user_selected_model": ask.preference,
        "mode": "CONCISE" if ask.preference in AUTOMATIC else "COPILOT",
        "search_mode": "RESEARCH" if ask.preference == RESEARCH else "SEARCH",
        "search_focus": params["search_focus"],
        "source": params.get("source", "default"),
        "attachments": params.get("attachments") or [],
        "query_str": ask.query,
        "query_language": params.get("language"),
        "gpt4": False,
        "expect_search_results": "true",
        "search_implementation_mode": "multi_step",
        "classifier_results": {"personal_search": False, "skip_search": False, "widget_type": None},
        "telemetry_data": {"country": None, "is_followup": ask.previous is not None, "source": "default"},
        "structured_answer_block_usages": [],
        "answer_modes": [{"answer_mode_type": "SOURCES"}],
        "widget_data": [],
        "knowledge_cards": [],
        "privacy_state": "NONE",
    }


dump = msgspec.json.encode  # thousands of frames a second


class Frames:
    """Builds the frames of one entry; each is the encoded JSON of one record."""

    def __init__(self, entry: Entry, ask: Ask, content: Content, script: Script) -> None:
        self.entry, self.content, self.script = entry, content, script
        self._legacy = "legacy-sources" in script
        self._blocks = Blocks(content, shape_of(ask, content, entry.model, script))
        self._last_text = "last-text" in script or (
            ask.preference == "experimental"
            and "shape" not in script
            and "workflow_steps" not in ask.use_cases
        )
        self._upsell = entry.fate == "authwall" or "authwall" in script
        self._head = dump(_echo(entry, ask, content))[:-1] + b","
        self._token = thread_part(entry.thread, "token")

    def _model(self, stage: Stage) -> str:
        """Who answers at a stage (§9)."""
        script, whole = self.script, len(self.content.pieces)
        if "substitute" in script:
            return script.markers["substitute"]
        if "switch" in script and stage.pieces > whole // 2:
            return script.markers["switch"]
        if "aux-tail" in script and stage.pieces >= whole:
            return AUXILIARY
        return self.entry.model

    def _cursor(self, number: int) -> str:
        return f"{self.entry.id[:24]}{number:012x}"

    def _moving(self, number: int, stage: Stage) -> Frame:
        frame: Frame = {"status": "PENDING", "final": stage.complete, "text_completed": stage.complete}
        frame |= {"final_sse_message": False, "message_mode": "STREAMING", "reconnectable": True}
        frame["cursor"] = self._cursor(number)
        if "no-model" not in self.script:
            frame["display_model"] = self._model(stage)
        if number >= _TOKENLESS and "no-token" not in self.script:
            frame["read_write_token"] = self._token
        if self._legacy and stage.found != "none":
            frame["web_results"] = list(self.content.sources)
            frame["plan"] = {"goals": [{"description": goal} for goal in self.content.goals], "final": False}
        if self._upsell and number:
            name = self.script.markers.get("authwall") or "logged_out_thread_sign_in"
            frame["upsell_information"] = upsell(name)
        return frame

    def _text(self, frame: Frame, stage: Stage, *, last: bool) -> None:
        shape = self._blocks.shape
        if shape.text or (last and self._last_text):
            form = self.script.markers.get("text-form", "nested")
            report = shape.report_in_text
            frame["text"] = step_list(self.content, stage, form, last=last, report=report)

    def _record(self, frame: Frame) -> bytes:
        return self._head + dump(frame)[1:]

    def between(self, number: int, before: Stage, now: Stage) -> bytes:
        """The frame with this number, which leads from one stage to the next."""
        frame = self._moving(number, now)
        frame["blocks"] = self._blocks.between(before, now)
        self._text(frame, now, last=False)
        return self._record(frame)

    def snapshot(self, number: int, now: Stage) -> bytes:
        """The first frame after a reconnect (§15)."""
        frame = self._moving(number, now)
        frame["blocks"] = self._blocks.snapshot(now, last=False)
        self._text(frame, now, last=False)
        return self._record(frame)

    def last(self, number: int, stage: Stage) -> bytes:
        """The one frame with `final_sse_message`."""
        frame = self._moving(number, stage)
        frame |= {"status": "COMPLETED", "final": True, "text_completed": True, "final_sse_message": True}
        frame |= {"message_mode": "FULL", "reconnectable": False}
        frame["blocks"] = self._blocks.snapshot(stage, last=True)
        self._text(frame, stage, last=True)
        frame["related_queries"] = [
            f"What about {goal}?" for goal in ("the costs", "the risks", "the others")
        ]
        frame["_extras"] = {"related_query_items": [], "thread_access": 1}
        if "terminal-kib" in self.script:
            wanted = int(self.script.number("terminal-kib", 0)) * 1024 - len(self._record(frame))
            image = {"medium": "image", "image": "data:image/png;base64," + "A" * max(0, wanted)}
            frame["blocks"].append({"intended_usage": "media_items", "media_block": {"media_items": [image]}})
        return self._record(frame)

    def stopped(self, number: int, stage: Stage) -> bytes:
        """The last frame of a run that was stopped: COMPLETED, but `text_completed` is false (§6)."""
        frame = self._moving(number, stage)
        frame |= {"status": "COMPLETED", "final": True, "text_completed": False, "final_sse_message": True}
        frame |= {"message_mode": "FULL", "reconnectable": False}
        frame["blocks"] = self._blocks.snapshot(stage, last=False)
        self._text(frame, stage, last=False)
        return self._record(frame)

    def bare(self, number: int, **members: object) -> bytes:
        """A frame without blocks; `members` win over what it would say."""
        return self._record({**self._moving(number, Stage()), "blocks": [], **members})

    def alone(self, **members: object) -> bytes:
        """A frame that holds nothing but these members and whose it is."""
        return dump({"backend_uuid": self.entry.id, **members})
