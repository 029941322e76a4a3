"""What somebody has, by the ids that paths name: made through the portal's own doors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from portal.services.invitations import create_invitation
from portal.services.keys import create_key
from portal.services.principal import principal_of
from proxy.protocol.responses import parse_responses
from proxy.services import responses
from tests.portal.people import somebody
from tests.proxy import dialogues
from tests.proxy.chatting import Chatter
from tests.proxy.responding import body

Parts = Mapping[str, str]
"""What stands in a path's braces, by its name there."""


def a_run(who: Chatter) -> Parts:
    made = who.client.post("/v1/agent", json={"input": "Why?"})
    return {"id": made.json()["id"]}


def a_chat(who: Chatter) -> Parts:
    """A response that is being made."""
    opened = responses.open_response(who.principal, parse_responses(body(), default_model="gpt"))
    return {"id": f"resp_{opened.question.turn_id.hex}"}


def a_file(who: Chatter) -> Parts:
    form = {"files": {"file": ("a.txt", b"words")}, "data": {"purpose": "user_data"}}
    return {"id": who.client.post("/v1/files", **form).json()["id"]}


def a_conversation(who: Chatter) -> Parts:
    item = {"type": "message", "role": "user", "content": "Why?"}
    made = who.client.post("/v1/conversations", json={"items": [item]}).json()["id"]
    items = who.client.get(f"/v1/conversations/{made}/items").json()["data"]
    return {"id": made, "item": items[0]["id"]}


def a_talk(who: Chatter) -> Parts:
    """In the dashboard."""
    return {"conversation_id": str(dialogues.ask(who.user).conversation_id)}


def a_key(who: Chatter) -> Parts:
    return {"public_id": create_key(who.user, name="another")[0].public_id}


def a_member(who: Chatter) -> Parts:
    """Of the team that they lead."""
    return {"member": str(somebody(team=who.user.membership.team).membership.pk)}


def an_invitation(who: Chatter) -> Parts:
    return {"invitation": str(create_invitation(principal_of(who.user), who.user.membership.team)[0].pk)}


def a_run_s_page(who: Chatter) -> Parts:
    return {"public_id": a_run(who)["id"]}


def a_thing_in_the_library(who: Chatter) -> Parts:
    return {"item": a_talk(who)["conversation_id"]}


Maker = Callable[[Chatter], Parts]
OF_DOORS: dict[str, tuple[Maker, ...]] = {
    "/v1/agent/{id}": (a_run,),
    "/v1/agent/{id}/cancel": (a_run,),
    "/v1/responses/{id}": (a_run, a_chat),
    "/v1/responses/{id}/cancel": (a_run, a_chat),
    "/v1/responses/{id}/input_items": (a_run, a_chat),
    "/v1/async/sonar/{id}": (a_run,),
    "/async/chat/completions/{id}": (a_run,),
    "/v1/files/{id}": (a_file,),
    "/v1/files/{id}/content": (a_file,),
    "/v1/conversations/{id}": (a_conversation,),
    "/v1/conversations/{id}/items": (a_conversation,),
    "/v1/conversations/{id}/items/{item}": (a_conversation,),
}
"""Path of a door → whose ids may stand in it."""
OF_PAGES: dict[str, Maker] = {
    "runs/<str:public_id>": a_run_s_page,
    "runs/<str:public_id>/live": a_run_s_page,
    "runs/<str:public_id>/stop": a_run_s_page,
    "runs/<str:public_id>/share": a_run_s_page,
    "runs/<str:public_id>/take-back": a_run_s_page,
    "chat/<uuid:conversation_id>": a_talk,
    "chat/<uuid:conversation_id>/live": a_talk,
    "chat/<uuid:conversation_id>/stop": a_talk,
    "chat/<uuid:conversation_id>/rename": a_talk,
    "chat/<uuid:conversation_id>/delete": a_talk,
    "library/<uuid:item>/tag": a_thing_in_the_library,
    "keys/<str:public_id>/rotate": a_key,
    "keys/<str:public_id>/revoke": a_key,
    "team/members/<int:member>/role": a_member,
    "team/members/<int:member>/remove": a_member,
    "team/invitations/<int:invitation>/revoke": an_invitation,
}
OF_TOOLS: dict[str, str] = {
    "get_research": "id",
    "cancel_research": "id",
    "pplx_deep_research_check": "job_id",
}
"""Tool → its argument that names a run."""
OF_LISTS: dict[str, Maker] = {
    "/v1/agent": a_run,
    "/v1/async/sonar": a_run,
    "/async/chat/completions": a_run,
    "/v1/files": a_file,
}
"""Path of a list → what it goes on behind."""
EVERYBODYS = {
    "/v1/models/{id:path}": "the catalogue is the same for all",
    "invite/<str:token>": "its address is the secret itself",
}
