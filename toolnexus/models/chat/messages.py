"""The messages of a chat completion request as a transcript that every endpoint accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from toolnexus.core.media import kind_of_suffix
from toolnexus.core.messages import MediaPart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from toolnexus.core.values import mutable
from toolnexus.core.wire import message_from_json
from toolnexus.errors import ConfigError

KEPT = "toolnexus"
"""The member of `extra_content` that holds what the shape has no place for."""

NO_RESULT = "no result came with this call"

_DATA = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@mutable()
class _Turn:
    """A message, and the results that came for its calls."""

    message: Message
    given: list[str] = field(default_factory=list[str])
    """The ids of its calls as the caller wrote them, in order."""
    names: list[str] = field(default_factory=list[str])
    results: dict[int, ToolResultPart] = field(default_factory=dict[int, ToolResultPart])


def read_messages(given: Any) -> tuple[str, tuple[Message, ...]]:
    """The system prompt and the transcript that `given` holds.

    Every result stands behind the turn that called, those of one turn together and in call order,
    wherever the caller had put them; a call without a result is told so. Ids that come again are made
    unique. Raises `ConfigError` that names the place.
    """
    if not isinstance(given, (list, tuple)) or not given:
        raise ConfigError("messages: give a list of at least one message")
    system, turns, ids = list[str](), list[_Turn](), dict[str, int]()
    for n, message in enumerate(cast("list[Any]", given)):
        place = f"messages[{n}]"
        one = members(message)
        role = one.get("role")
        if role not in _ROLES:
            raise ConfigError(f"{place}: role {role!r} is none of {', '.join(_ROLES)}")
        if role in ("system", "developer"):
            system.append(_text(_parts(one, place)))
        elif role == "user":
            turns.append(_Turn(Message("user", tuple(_parts(one, place)))))
        elif role == "assistant":
            turns.append(_assistant(one, place, ids))
        else:
            _settle(one, place, turns)
    if not turns:
        raise ConfigError("messages: there is nothing but a system prompt; give a message of the user")
    return "\n\n".join([text for text in system if text]), tuple(_transcript(turns))


def members(value: object) -> Mapping[str, Any]:
    """Those of an object; none for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _transcript(turns: list[_Turn]) -> Iterator[Message]:
    for turn in turns:
        yield turn.message
        if calls := turn.message.tool_calls:
            none = [ToolResultPart(call.id, NO_RESULT, is_error=True) for call in calls]
            yield Message("tool", tuple([turn.results.get(n, none[n]) for n in range(len(calls))]))


def _assistant(message: Mapping[str, Any], place: str, ids: dict[str, int]) -> _Turn:
    parts: list[Part] = _parts(message, place)
    if isinstance(refusal := message.get("refusal"), str) and refusal and not parts:
        parts = [TextPart(refusal)]
    calls = list(_calls(message, place))
    kept = _kept(message, _text(parts), calls)
    turn = _Turn(
        Message("assistant", tuple(parts)), [call.id for call in calls], [call.name for call in calls]
    )
    unique = [_unique(call, ids) for call in calls]
    if kept is None:
        turn.message = Message("assistant", (*parts, *unique))
    else:
        fresh = iter(unique)
        again = [next(fresh) if isinstance(part, ToolCallPart) else part for part in kept.parts]
        turn.message = Message("assistant", tuple(again), origin=kept.origin, extra=kept.extra)
    return turn


def _unique(call: ToolCallPart, ids: dict[str, int]) -> ToolCallPart:
    """Some servers begin with `call_0` in every turn, or give no id at all."""
    id = call.id or "call"
    ids[id] = ids.get(id, 0) + 1
    if ids[id] == 1 and call.id:
        return call
    while (new := f"{id}_{ids[id]}") in ids:
        ids[id] += 1
    ids[new] = 1
    return ToolCallPart(new, call.name, call.arguments)


def _calls(message: Mapping[str, Any], place: str) -> Iterator[ToolCallPart]:
    given: object = message.get("tool_calls") or ()
    if not isinstance(given, (list, tuple)):
        raise ConfigError(f"{place}.tool_calls: give a list, not {type(given).__name__}")
    calls = [members(call) for call in cast("Sequence[Any]", given)]
    if legacy := members(message.get("function_call")):
        calls.append({"function": legacy})
    for n, call in enumerate(calls):
        function = members(call.get("function"))
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{place}.tool_calls[{n}]: give {{'id', 'function': {{'name', 'arguments'}}}}")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some clients send the object itself
            arguments = json.dumps({} if arguments is None else arguments)
        yield ToolCallPart(str(call.get("id") or ""), name, arguments)


def _kept(message: Mapping[str, Any], text: str, calls: list[ToolCallPart]) -> Message | None:
    """What a reply of ours had beside its text and calls, unless the caller changed these."""
    record = members(message.get("extra_content")).get(KEPT)
    if record is None:
        return None
    try:
        kept = message_from_json(record)
    except (ValueError, ConfigError):
        return None
    same = [(c.id, c.name, c.arguments) for c in kept.tool_calls] == [
        (c.id, c.name, c.arguments) for c in calls
    ]
    return kept if same and kept.text == text and kept.role == "assistant" else None


def _settle(message: Mapping[str, Any], place: str, turns: list[_Turn]) -> None:
    """Put a result to its call: the last one of that id, or of that name, that has none yet."""
    id, name = message.get("tool_call_id"), message.get("name")
    wanted = id if id is not None else name
    for turn in reversed(turns):
        known = turn.given if id is not None else turn.names
        for n, one in enumerate(known):
            if n not in turn.results and (wanted is None or one == wanted):
                parts = _parts(message, place)
                media = tuple([p for p in parts if isinstance(p, MediaPart)])
                turn.results[n] = ToolResultPart(turn.message.tool_calls[n].id, _text(parts), media=media)
                return
    what = f"tool_call_id {id!r}" if id is not None else f"name {name!r}"
    raise ConfigError(f"{place}: {what} answers no open call before it")


def _parts(message: Mapping[str, Any], place: str) -> list[Part]:
    content: object = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    if not isinstance(content, (list, tuple)):
        raise ConfigError(f"{place}.content: give text or a list of parts, not {type(content).__name__}")
    given = enumerate(cast("Sequence[Any]", content))
    return [part for n, one in given if (part := _part(one, f"{place}.content[{n}]")) is not None]


def _text(parts: list[Part]) -> str:
    return "".join([part.text for part in parts if isinstance(part, TextPart)])


def _part(given: Any, place: str) -> Part | None:
    one = members(given)
    kind = one.get("type")
    try:
        match kind:
            case "text" | "refusal":
                return TextPart(text) if (text := str(one.get(kind) or "")) else None
            case "image_url":
                url = one["image_url"]
                return _media(url if isinstance(url, str) else url["url"], "image/png")
            case "input_audio":
                sound = one["input_audio"]
                return MediaPart(f"audio/{sound['format']}", data=sound["data"])
            case "file" if "file_id" not in one["file"]:
                file = one["file"]
                return _media(file["file_data"], "application/pdf", file.get("filename"))
            case _:
                what = "a file by its id, which is of another place" if kind == "file" else f"type {kind!r}"
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"{place}: {kind} is not as it should be: {type(error).__name__} {error}"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    raise ConfigError(f"{place}: {what} is not understood; allowed: text, image_url, input_audio, file")


def _media(url: str, otherwise: str, name: str | None = None) -> MediaPart:
    if (inline := _DATA.fullmatch(url)) is not None:
        return MediaPart(inline[1] or otherwise, data=inline[2], name=name)
    if url.startswith(("http://", "https://")):
        path = url.partition("?")[0].partition("#")[0]
        return MediaPart(kind_of_suffix(path) or otherwise, url=url, name=name)
    return MediaPart(otherwise, data=url, name=name)
