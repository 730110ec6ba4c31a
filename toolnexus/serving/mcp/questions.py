"""Questions of a run as elicitations, where the caller can put them to somebody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import mcp_types as types

from toolnexus.core.suspension import Answer, Request
from toolnexus.core.unicode import encodable, encodable_json

_PRIMITIVE = ("string", "number", "integer", "boolean")


def elicitation(
    request: Request, able: types.ClientCapabilities | None
) -> types.ElicitRequestFormParams | types.ElicitRequestURLParams | None:
    """`request` in MCP's words; None when a caller that is `able` to do this much cannot put it."""
    if lacking(request, able) is not None:
        return None
    prompt = encodable(request.prompt)
    if request.url is not None:
        return types.ElicitRequestURLParams(message=prompt, url=request.url, elicitation_id=request.id)
    schema = _form(request)
    if schema is None:
        return None
    return types.ElicitRequestFormParams(message=prompt, requested_schema=encodable_json(schema))


def lacking(
    request: Request, able: types.ClientCapabilities | None
) -> types.MissingRequiredClientCapabilityErrorData | None:
    """What a caller that is `able` to do this much would have to be able to do to be asked `request`."""
    modes = able.elicitation if able is not None else None
    if request.url is not None:
        has_mode = modes is not None and modes.url is not None
        mode = types.ElicitationCapability(url=types.UrlElicitationCapability())
    else:
        has_mode = modes is not None and (modes.form is not None or modes.url is None)
        mode = types.ElicitationCapability(form=types.FormElicitationCapability())
    if has_mode:
        return None
    required = types.ClientCapabilities(elicitation=mode)
    return types.MissingRequiredClientCapabilityErrorData(required_capabilities=required)


def answer(request: Request, result: types.ElicitResult) -> Answer:
    """What the caller said, as an answer to `request`."""
    if result.action != "accept":
        reason = "declined" if result.action == "decline" else "cancelled"
        return Answer(id=request.id, ok=False, reason=reason)
    return Answer(id=request.id, data=_data(request, result.content or {}))


def _form(request: Request) -> dict[str, Any] | None:
    """The fields to fill in: flat, as MCP wants them."""
    data = request.data or {}
    match request.kind:
        case "approval" | "authorization":
            return _object({})
        case "question":
            questions = _questions(data)
            fields = {f"answer_{i}": _field(question) for i, question in enumerate(questions, 1)}
            return _object(fields or {"answer": {"type": "string"}})
        case "input":
            schema = cast("Mapping[str, Any]", data.get("schema") or {})
            fields = cast("Mapping[str, Any]", schema.get("properties") or {})
            if not fields:
                return _object({"answer": {"type": "string"}})
            flat = all(isinstance(f, Mapping) and _is_flat(cast("Any", f)) for f in fields.values())
            return _object(dict(fields), schema.get("required", ())) if flat else None
        case _:
            return None


def _data(request: Request, content: Mapping[str, Any]) -> Any:
    match request.kind:
        case "approval" | "authorization":
            return None
        case "question":
            fields = (_form(request) or {})["properties"]
            texts = [str(content.get(name, "")) for name in fields]
            return texts[0] if len(texts) == 1 else texts
        case _:
            only = set(content) == {"answer"} and not _named(request)
            return content["answer"] if only else dict(content)


def _object(fields: Mapping[str, Any], required: Any = None) -> dict[str, Any]:
    names = list(fields) if required is None else required
    return {"type": "object", "properties": dict(fields), **({"required": names} if names else {})}


def _questions(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", data.get("questions") or ())


def _field(question: Mapping[str, Any]) -> dict[str, Any]:
    """One question. Options are suggestions: somebody may answer something else."""
    options = question.get("options")
    text = question["question"] if not options else f"{question['question']} ({' / '.join(options)})"
    return {"type": "string", "title": question.get("header") or question["question"], "description": text}


def _is_flat(field: Mapping[str, Any]) -> bool:
    """A plain value, or a list of choices."""
    if field.get("type") == "array":
        items: Any = field.get("items")
        return isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)
    return field.get("type") in _PRIMITIVE


def _named(request: Request) -> bool:
    schema = (request.data or {}).get("schema")
    return isinstance(schema, Mapping) and bool(cast("Mapping[str, Any]", schema).get("properties"))
