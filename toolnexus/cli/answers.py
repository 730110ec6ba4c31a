"""Questions that a conversation waits for: as lines to read, and as answers that were typed."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from toolnexus.cli.exits import UsageError
from toolnexus.cli.view.words import plural, printable
from toolnexus.core.suspension import Answer, Request

_REPEATED = (
    *("config", "model", "base_url", "api_key_env", "system", "max_turns", "mcp", "skills", "agents"),
    *("agent_model", "builtins", "no_builtins", "workdir", "allow", "ask", "deny", "store"),
)
_YES_OR_NO = ("approval", "authorization")


def given_answers(options: Namespace) -> list[Answer]:
    """What `--approve`, `--decline` and `--answer` say. Raises `UsageError` for an id that stands twice."""
    answers = [
        *(Answer(id=id) for id in options.approve),
        *(Answer(id=id, ok=False, reason="declined") for id in options.decline),
        *(Answer(id=id, data=_data(text)) for id, text in options.answer),
    ]
    ids = [answer.id for answer in answers]
    if twice := [id for id in dict.fromkeys(ids) if ids.count(id) > 1]:
        raise UsageError(f"{twice[0]!r} is answered twice; give one answer to each question")
    return answers


def check_answers(answers: Iterable[Answer], requests: Iterable[Request]) -> None:
    """Raises `UsageError` for a text where yes or no is wanted, and the other way round."""
    kinds = {request.id: request.kind for request in requests}
    for answer in answers:
        kind = kinds.get(answer.id)
        if not answer.ok or kind is None:
            continue
        if kind in _YES_OR_NO and answer.data is not None:
            raise UsageError(f"{answer.id!r} is an {kind}: --approve or --decline it")
        if kind not in _YES_OR_NO and answer.data is None:
            raise UsageError(f"{answer.id!r} wants an answer ({kind}): --answer {answer.id}=TEXT")


def tell_waiting(requests: Sequence[Request], options: Namespace) -> None:
    """Say on stderr what is open, and what to type for each."""
    command = shlex.join(["toolnexus", "resume", options.conversation, *_again(options)])
    print(
        printable(f"conversation {options.conversation!r} waits for {plural(len(requests), 'answer')}:"),
        file=sys.stderr,
    )
    for request in requests:
        for line in (*asked(request), f"  {command} {_reply(request)}"):
            print(printable(line, keep="\n\t"), file=sys.stderr)


def asked(request: Request) -> list[str]:
    """The id and the question, who asks when it is an agent below, and the address to open."""
    path = (request.data or {}).get("path") or ()
    by = f" (asked by {'/'.join(path)})" if len(path) > 1 else ""
    lines = [f"{request.id}: {request.prompt}{by}"]
    return [*lines, f"  open: {request.url}"] if request.url else lines


def _reply(request: Request) -> str:
    if request.kind in _YES_OR_NO:
        return f"--approve {request.id}"
    data = request.data or {}
    form: Any = None
    if isinstance(schema := data.get("schema"), Mapping):
        form = dict.fromkeys(cast("Mapping[str, Any]", schema).get("properties") or (), "…")
    elif isinstance(questions := data.get("questions"), list) and len(cast("list[Any]", questions)) > 1:
        form = ["…" for _ in cast("list[Any]", questions)]
    text = shlex.quote(json.dumps(form, ensure_ascii=False)) if form else "TEXT"
    return f"--answer {request.id}={text}"


def _data(text: str) -> Any:
    """A JSON object or list as such, everything else as the text that it is."""
    try:
        data: Any = json.loads(text)
    except ValueError:
        return text
    return cast("Any", data) if isinstance(data, (dict, list)) else text


def _again(options: Namespace) -> list[str]:
    """The options that make the same client once more."""
    given: list[str] = []
    for name in _REPEATED:
        value: Any = vars(options).get(name)
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            given.append(flag)
        elif isinstance(value, list):
            for one in cast("list[str | tuple[str, str]]", value):
                given += [flag, one if isinstance(one, str) else "=".join(one)]
        elif value not in (None, False):
            hidden = name == "base_url" and "@" in value  # it may hold a password
            given += [flag, "URL" if hidden else str(value)]
    return given
