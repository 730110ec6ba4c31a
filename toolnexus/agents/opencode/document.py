"""The agents of an `opencode.json`: tables by name under `agent` (version 1) or `agents` (version 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolnexus.agents import fields
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.opencode.definition import define
from toolnexus.agents.opencode.rules import Line, read_lines
from toolnexus.core.jsonc import plain_json
from toolnexus.core.strict_json import decode

_TABLES = ("agent", "agents")
MOST_AGENTS = 100
_RULES = ("permission", "permissions")


def read_opencode_document(written: Written) -> Sequence[Found]:
    """The agents of the document; none where it has no table of them. Its rules hold for each."""
    whole = Remarks()
    document = _document(written.text, whole)
    tables = [(key, document[key]) for key in _TABLES if key in document]
    above = [line for key in _RULES for line in read_lines(document.get(key), key, whole)]
    if document.get("tools"):
        whole.fail("tools", "write 'permission' instead: what is off for all would not hold for an agent")
    found = [one for key, table in tables for one in _agents(key, table, above, written.models, whole)]
    beside = [key for key in document if key not in (*_TABLES, *_RULES, "tools", "$schema")]
    if found and beside:
        shown = ", ".join(repr(key[:60]) for key in beside[:5])
        more = f", … ({len(beside)} in all)" if len(beside) > 5 else ""
        whole.lose(shown + more, "beside the agents; servers go into Client(mcp=…)")
    return [*found, Found(None, whole)] if found or whole.wrong else []


def _document(text: str, remarks: Remarks) -> Mapping[str, Any]:
    try:
        document = decode(plain_json(text))
    except (ValueError, RecursionError) as error:
        remarks.fail("document", f"it does not parse: {error}")
        return {}
    if not isinstance(document, Mapping):
        remarks.fail("document", "an object is wanted")
        return {}
    return fields.as_text(document)


def _agents(
    key: str, table: Any, above: Sequence[Line], models: Mapping[str, str], whole: Remarks
) -> list[Found]:
    if not isinstance(table, Mapping):
        whole.fail(key, "give a table of agents by name")
        return []
    if len(cast("Mapping[str, Any]", table)) > MOST_AGENTS:
        whole.fail(key, f"at most {MOST_AGENTS} agents are read")
        return []
    out: list[Found] = []
    for name, given in cast("Mapping[str, Any]", table).items():
        remarks = Remarks(place=f"{key}.{name}")
        if isinstance(given, Mapping):
            out.append(define(name, cast("Mapping[str, Any]", given), None, models, remarks, above))
        else:
            remarks.fail("agent", "give a table of its keys")
            out.append(Found(None, remarks))
    return out
