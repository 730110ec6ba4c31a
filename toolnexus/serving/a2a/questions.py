"""What a run asks, as a message of the agent; and the caller's next message as the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from a2a.types import Message, Part, Role, Task, TaskState

from toolnexus.core.suspension import Answer, Request, check_answer
from toolnexus.protocols.a2a.parts import data_part, plain, text_part
from toolnexus.tools.arguments import explain

REQUESTS = "requests"
"""The key of the data part that has the questions."""
ANSWERS = "answers"
"""The key of a data part that answers them by their ids."""

_YES = frozenset(("yes", "y", "ok", "okay", "true", "approve", "approved", "allow", "allowed", "confirm"))
_NO = frozenset(("no", "n", "false", "deny", "denied", "decline", "declined", "reject", "rejected", "cancel"))


class Unclear(Exception):
    """The message is no answer. Says what would be one."""


def state_of(requests: Sequence[Request]) -> TaskState:
    """The state of a task that waits for answers to `requests`."""
    if all(request.kind == "authorization" for request in requests):
        return TaskState.TASK_STATE_AUTH_REQUIRED
    return TaskState.TASK_STATE_INPUT_REQUIRED


def question_parts(requests: Sequence[Request], note: str = "") -> list[Part]:
    """The first question as text, which a text answers; and all of them as data."""
    wire = [request.to_json() for request in requests]
    for request in wire:
        request.pop("digest", None)  # of no use to anybody but the run
    text = f"{note}\n{requests[0].prompt}" if note else requests[0].prompt
    return [text_part(text), data_part({REQUESTS: wire})]


def asked_ids(task: Task) -> list[str]:
    """The ids of the questions that a task waits with, in their order.

    A server that dies as an answer comes may leave the questions in the history only.
    """
    messages = (task.status.message, *reversed(task.history))
    said = next((message for message in messages if message.role == Role.ROLE_AGENT), Message())
    found = [plain(part.data) for part in said.parts if part.WhichOneof("content") == "data"]
    lists = [cast("dict[str, Any]", data).get(REQUESTS) for data in found if isinstance(data, dict)]
    items = [item for one in lists if isinstance(one, list) for item in cast("list[Any]", one)]
    requests = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return [str(request["id"]) for request in requests if "id" in request]


def read_answers(message: Message, waiting: Sequence[Request]) -> list[Answer]:
    """What `message` answers of `waiting`. Raises `Unclear`.

    Answers by id come as `{"answers": [{"id", "ok", "data", "reason"}]}` in a data part; other data, and
    text, is for the first question.
    """
    known = {request.id: request for request in waiting}
    texts = [part.text for part in message.parts if part.WhichOneof("content") == "text"]
    for part in message.parts:
        if part.WhichOneof("content") != "data":
            continue
        value = plain(part.data)
        by_id = _by_id(value)
        if by_id is not None:
            if len({answer.id for answer in by_id}) < len(by_id):
                raise Unclear("A question is answered twice.")
            return [_checked(answer, known) for answer in by_id]
        return [_checked(_of_data(waiting[0], value), known)]
    return [_checked(_of_text(waiting[0], "\n".join(texts).strip()), known)]


def _by_id(value: Any) -> list[Answer] | None:
    """Answers that name their questions; None when the data is none of that form."""
    if not isinstance(value, dict):
        return None
    listed = cast("dict[str, Any]", value).get(ANSWERS)
    if not isinstance(listed, list) or not listed:
        return None
    try:
        return [Answer.from_json(one) for one in cast("list[Any]", listed)]
    except (ValueError, TypeError, AttributeError) as error:
        raise Unclear(f"An answer is malformed: {error}.") from None


def _checked(answer: Answer, known: Mapping[str, Request]) -> Answer:
    request = known.get(answer.id)
    if request is None:
        raise Unclear(f"No open question has the id {answer.id!r}.")
    schema = (request.data or {}).get("schema")
    if request.kind == "input" and answer.ok and isinstance(schema, Mapping):
        wrong = _violations(cast("Mapping[str, Any]", schema), answer.data)
        if wrong:
            raise Unclear("\n".join(["That does not fit:", *(f"- {line}" for line in wrong)]))
    try:
        check_answer(request, answer)
    except ValueError as error:
        raise Unclear(f"That does not fit: {error}.") from None
    return answer


def _violations(schema: Mapping[str, Any], data: Any) -> list[str]:
    if not isinstance(data, dict):
        return ["an object is needed, as a data part or as JSON"]
    try:
        return explain(schema, cast("dict[str, Any]", data))
    except Exception:  # a schema that nobody can check: the tool has to
        return []


def _of_data(request: Request, value: Any) -> Answer:
    ok = cast("dict[str, Any]", value).get("ok") if isinstance(value, dict) else value
    if request.kind in ("approval", "authorization"):
        if not isinstance(ok, bool):
            raise Unclear('Answer yes or no, or with the data {"ok": true}.')
        return Answer(id=request.id) if ok else Answer(id=request.id, ok=False, reason="declined")
    return Answer(id=request.id, data=value)


def _of_text(request: Request, text: str) -> Answer:
    if not text:
        raise Unclear("The message has no text and no data.")
    word = text.rstrip(".!").lower()
    if request.kind in ("approval", "authorization"):
        if word in _NO:
            return Answer(id=request.id, ok=False, reason="declined")
        if word in _YES or request.kind == "authorization":
            return Answer(id=request.id)
        raise Unclear("Answer yes or no.")
    return Answer(id=request.id, data=_form(request, text) if request.kind == "input" else text)


def _form(request: Request, text: str) -> Any:
    """A form as JSON, or the value of its only field."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    schema = cast("Mapping[str, Any]", (request.data or {}).get("schema") or {})
    fields = list(cast("Mapping[str, Any]", schema.get("properties") or {}))
    if isinstance(value, dict) or len(fields) != 1:
        return cast("Any", value)
    kind = schema["properties"][fields[0]].get("type")
    return {fields[0]: text if kind == "string" else value}
