"""Whether JSON has the form of a snapshot. It may come from anywhere: that is known before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

Check = Callable[[Any, str], None]


def check_form(data: Any) -> None:
    """Raises `ValueError` that says where `data` has another form than a snapshot.

    Messages, questions and answers are looked at by whoever reads them.
    """
    _snapshot(data, "snapshot")
    _places(data["frame"], data["ledger"])


def check_workflow(state: Any) -> None:
    """Raises `ValueError` that says where `state` has another form than what a workflow keeps."""
    _with({"pad": _pad}, done=_table(_anything), pads=_table(_pad), input=_anything)(state, "state")


def _is(what: str, *kinds: type) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{where} is no {what}")

    return check


def _count(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{where} is no count")


def _anything(value: Any, where: str) -> None:
    pass


def _maybe(check: Check) -> Check:
    def either(value: Any, where: str) -> None:
        if value is not None:
            check(value, where)

    return either


def _list(check: Check) -> Check:
    def each(value: Any, where: str) -> None:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{where} is no list")
        for at, item in enumerate(cast("Sequence[Any]", value)):
            check(item, f"{where}[{at}]")

    return each


def _table(check: Check) -> Check:
    def each(value: Any, where: str) -> None:
        _object(value, where)
        for key, item in value.items():
            _text(key, where)
            check(item, f"{where}.{key[:40]}")

    return each


def _with(optional: Mapping[str, Check] | None = None, **checks: Check) -> Check:
    def members(value: Any, where: str) -> None:
        _object(value, where)
        for key, check in checks.items():
            if key not in value:
                raise ValueError(f"{where} has no {key!r}")
            check(value[key], f"{where}.{key}")
        for key, check in (optional or {}).items():
            if key in value:
                check(value[key], f"{where}.{key}")

    return members


_text = _is("text", str)
_number = _is("number", int, float)
_object = _is("object", Mapping)
_path = _list(_text)
_limit = _with(limit=_text, value=_maybe(_number), path=_path, scope=_path)
_usage = _with(
    {"estimated": _is("flag", bool), "cost": _number},
    promptTokens=_count,
    completionTokens=_count,
    cachedTokens=_count,
    cacheWriteTokens=_count,
    reasoningTokens=_count,
    requests=_count,
)


_pad = _with({"run": _table(_anything)}, branch=_table(_anything), late=_table(_list(_anything)))


def _row(value: Any, where: str) -> None:
    if not isinstance(value, (list, tuple)) or len(cast("Sequence[Any]", value)) != 4:
        raise ValueError(f"{where} is no row of usage")
    for item, check in zip(cast("Sequence[Any]", value), (_path, _text, _text, _usage), strict=True):
        check(item, where)


def _result(value: Any, where: str) -> None:
    _with(
        {"agent": _text, "continues": _maybe(_path)},
        status=_text,
        text=_text,
        output=_anything,
        limit=_maybe(_text),
        limits=_list(_limit),
        messages=_list(_object),
        toolCalls=_count,
        toolCallsBelow=_count,
        children=_list(_result),
        turns=_count,
        usage=_list(_row),
        ownUsage=_usage,
        path=_path,
        error=_maybe(_text),
    )(value, where)


def _ledger(value: Any, where: str) -> None:
    _with(path=_path, agent=_text, toolCalls=_count, models=_table(_usage), children=_list(_ledger))(
        value, where
    )


def _child(value: Any, where: str) -> None:
    """A run below, or what a tool keeps for itself."""
    _object(value, where)
    if "messages" in value:
        _frame(value, where)


_waiting = _with({"child": _maybe(_child)}, requests=_list(_object))
_job = _with(
    id=_text,
    agent=_text,
    call=_text,
    model=_maybe(_text),
    given=_is("flag", bool),
    waiting=_maybe(_waiting),
)


def _frame(value: Any, where: str) -> None:
    _with(
        {"start": _count, "continues": _maybe(_path), "background": _list(_job), "scratch": _pad},
        path=_path,
        messages=_list(_object),
        results=_object,
        waiting=_table(_waiting),
        turns=_count,
        limits=_list(_limit),
        children=_list(_maybe(_result)),
        place=_count,
        definition=_text,
        state=_anything,
    )(value, where)


_snapshot = _with(
    {"conversation": _text},
    agent=_text,
    frame=_frame,
    ledger=_ledger,
    subAgents=_count,
    limits=_list(_limit),
    answers=_table(_object),
    approved=_list(_text),
)


def _places(frame: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
    """Every run that waits below `frame` has its free place there, and its part of the ledger."""
    below = {tuple(part["path"]): part for part in ledger["children"]}
    taken: set[int] = set()
    for waiting in frame["waiting"].values():
        child = waiting.get("child")
        if child is None or "messages" not in child:
            continue
        path, place, places = tuple(child["path"]), child["place"], frame["children"]
        if place >= len(places) or places[place] is not None or place in taken:
            raise ValueError(f"the run {'/'.join(path)!r} has no place of its own")
        if path not in below:
            raise ValueError(f"the run {'/'.join(path)!r} has no part in the ledger")
        taken.add(place)
        _places(child, below[path])
