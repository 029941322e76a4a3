"""`/v1/conversations…`: lists of items that responses go on from (openai-compat §3, proxy-contract §8.4)."""

from __future__ import annotations

from portal.api.paging import is_backwards, limit_of
from portal.api.replies import Answer, answer_json
from portal.api.routes import Call, KeyRoute
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.fields import Fields, fields_of
from portal.wire.metadata import read_metadata
from proxy.models.responses import ApiConversation
from proxy.protocol.api_conversation import conversation_deleted, conversation_object, read_new_items
from proxy.protocol.response_object import list_page
from proxy.services import conversations


def create(call: Call, who: Principal) -> Answer:
    body = _body(call)
    return _answer(conversations.make(who, read_metadata(body), read_new_items(body)))


def retrieve(call: Call, who: Principal) -> Answer:
    return _answer(_find(call, who))


def update(call: Call, who: Principal) -> Answer:
    body = fields_of(call.json())
    if not body.given("metadata"):
        raise body.refuse("metadata", "is required")
    return _answer(conversations.describe(_find(call, who), read_metadata(body)))


def delete(call: Call, who: Principal) -> Answer:
    conversation = _find(call, who)
    conversations.delete(who, conversation)
    return answer_json(conversation_deleted(conversation.name))


def list_items(call: Call, who: Principal) -> Answer:
    limit, backwards = limit_of(call), is_backwards(call)
    after = call.query.get("after") or None
    items, has_more = conversations.page_of(_find(call, who), limit, backwards=backwards, after=after)
    return answer_json(list_page(items, has_more=has_more))


def create_items(call: Call, who: Principal) -> Answer:
    body = fields_of(call.json())
    new = read_new_items(body)
    if not new:
        raise body.refuse("items", "is required: a list of at least one item")
    items = conversations.add_items(_find(call, who), new)
    return answer_json(list_page(items, has_more=False))


def retrieve_item(call: Call, who: Principal) -> Answer:
    return answer_json(conversations.find_item(_find(call, who), call.parts["item"]).data)


def delete_item(call: Call, who: Principal) -> Answer:
    conversation = _find(call, who)
    conversations.delete_item(conversation, call.parts["item"])
    return _answer(conversation)


def _find(call: Call, who: Principal) -> ApiConversation:
    return conversations.find_conversation(who, call.parts["id"])


def _body(call: Call) -> Fields:
    """The SDKs send `{}`, others nothing at all."""
    return fields_of(call.json()) if call.body.strip() else Fields({})


def _answer(conversation: ApiConversation) -> Answer:
    created_at = int(conversation.created_at.timestamp())
    return answer_json(conversation_object(conversation.name, created_at, conversation.metadata))


CHAT = Scope.CHAT.value
ITEMS = "/v1/conversations/{id}/items"
routes = (
    KeyRoute("POST", "/v1/conversations", CHAT, create),
    KeyRoute("GET", "/v1/conversations/{id}", CHAT, retrieve),
    KeyRoute("POST", "/v1/conversations/{id}", CHAT, update),
    KeyRoute("DELETE", "/v1/conversations/{id}", CHAT, delete),
    KeyRoute("GET", ITEMS, CHAT, list_items),
    KeyRoute("POST", ITEMS, CHAT, create_items),
    KeyRoute("GET", f"{ITEMS}/{{item}}", CHAT, retrieve_item),
    KeyRoute("DELETE", f"{ITEMS}/{{item}}", CHAT, delete_item),
)
