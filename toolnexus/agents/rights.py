"""What an agent may use, from the tools that its file allows and denies.

A doubt is always settled for fewer rights, and the remarks say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from toolnexus.agents.format import Remarks
from toolnexus.tools.builtin.catalog import NAMES
from toolnexus.tools.claude_names import TASK, WRITTEN, Grant, Target, mcp_parts, read_grants, target_of
from toolnexus.tools.filters import Expected, IfThere, is_glob

MOST_NAMES = 500

_ALSO_DENIED = {"write": ("apply_patch",), "edit": ("apply_patch",)}
"""Tools of ours that do the same by another name: denying one of a pair alone would deny nothing."""


_NULLS = ("null", "Null", "NULL", "~")
"""How YAML writes a key that is not given; the header is read as text."""


class Rights(NamedTuple):
    """What an agent may use, as `Agent` takes it."""

    tools: list[str] | dict[str, dict[str, bool]] | None
    agents: list[str] | None


def read_rights(tools: Any, denied: Any, agents: Any, remarks: Remarks) -> Rights:
    """The rights that the keys `tools`, `disallowedTools` and `agents` give; None: the key is not there.

    Raises nothing: what is wrong or left out is in `remarks`.
    """
    named = _agents(agents, remarks)
    allowed, delegates = _allowed(_grants("tools", tools, remarks), remarks)
    if named is not None and delegates is not None:
        if set(named) != set(delegates):
            remarks.lose("agents", "Agent(…) in tools names others; only those that both name are kept")
        delegates = [name for name in delegates if name in named]
    elif delegates is None:
        delegates = named
    refused, delegates = _refused(_grants("disallowedTools", denied, remarks) or (), delegates, remarks)
    if allowed is None:
        return Rights(_drop_list(refused), delegates)
    kept = _without(allowed, refused, remarks)
    if any(t.kind != WRITTEN for t in refused) and (
        delegates or any(fnmatchcase("task", name) for name in kept)
    ):
        remarks.lose("disallowedTools", "beside tools it holds for this agent alone, not for those below it")
    return Rights(kept, delegates)


def _grants(key: str, value: Any, remarks: Remarks) -> list[Grant] | None:
    """The tools that a text or a list names; None when nothing is written."""
    if value is None or value in _NULLS:
        return None
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in listed):
        remarks.fail(key, "give names of tools: a list, or a text with commas")
        return []
    if listed and not any(word.strip() for word in listed) and key == "tools":
        remarks.lose(key, "it is empty, so the agent has no tools; leave the key out for all of them")
    try:
        grants = read_grants(listed)
    except ValueError as error:
        remarks.fail(key, str(error))
        return []
    if len(grants) > MOST_NAMES:
        remarks.fail(key, f"it names {len(grants)} tools; at most {MOST_NAMES} are read")
        return []
    return grants


def _allowed(grants: Sequence[Grant] | None, remarks: Remarks) -> tuple[list[str] | None, list[str] | None]:
    """Names for a list of tools (None: all), and whom `Agent(…)` names."""
    if grants is None:
        return None, None
    names: list[str] = []
    delegates: list[str] | None = None
    for grant in grants:
        target = target_of(grant)
        if target is None:
            remarks.lose("tools", f"{grant.name} does not exist here and is left out")
        elif target.kind == "mcp" and is_glob(mcp_parts(grant.name)[0]):
            remarks.lose("tools", f"{grant.name} names no server and is left out")
        elif grant.scope is None:
            names.append(target.name)
        elif target == TASK:
            delegates = [*(delegates or ()), *_split(grant.scope)]
        else:
            remarks.lose(
                "tools", f"{grant.name}(…) is left out: a part of it cannot be granted, and all would be more"
            )
    return (None if "*" in names else list(dict.fromkeys(names))), delegates


def _refused(
    grants: Iterable[Grant], delegates: list[str] | None, remarks: Remarks
) -> tuple[list[Target], list[str] | None]:
    """What is denied, and the delegates that remain."""
    targets: list[Target] = []
    for grant in grants:
        target = target_of(grant)
        if target is None or (target.name != grant.name and target.kind != "mcp"):
            targets.append(Target(WRITTEN, grant.name))  # a tool of the host may be called so
        if target is None:
            continue
        if target == TASK and grant.scope is not None and delegates is not None:
            delegates = [name for name in delegates if name not in _split(grant.scope)]
            continue
        if grant.scope is not None:
            remarks.lose("disallowedTools", f"{grant.name}(…): all of {target.name} is denied, not a part")
        targets.append(target)
        targets += [Target("builtins", name) for name in _ALSO_DENIED.get(target.name, ())]
    return targets, [] if any(fnmatchcase("task", t.name) for t in targets) else delegates


def _drop_list(targets: Iterable[Target]) -> dict[str, dict[str, bool]] | None:
    """Filters that deny `targets`, here and in everything below; None when that is nothing."""
    out: dict[str, dict[str, bool]] = {}
    for target in targets:
        for kind, name in _spread(target):
            out.setdefault(kind, {})[name] = False
    return out or None


def _spread(target: Target) -> list[tuple[str, str]]:
    """The filters, by kind, that one denial takes: a name denies whatever is called so, of any kind."""
    kind, name = target
    if kind == "mcp":
        return [(kind, name if is_glob(name) else Expected(name))]
    if not is_glob(name):
        named = Expected(name) if kind == "native" else IfThere(name)
        own = [(kind, "*" if kind == "skills" else name)] if kind == "skills" or name in NAMES else []
        return [*own, ("mcp", IfThere(name)), ("native", named)]
    builtins = [("builtins", name)] if any(fnmatchcase(n, name) for n in NAMES) else []
    skills = [("skills", "*")] if fnmatchcase("skill", name) else []
    return [*builtins, *skills, ("mcp", name), ("native", name)]


def _without(names: Sequence[str], refused: Sequence[Target], remarks: Remarks) -> list[str]:
    """`names` without what is denied. A glob that holds something denied goes as a whole."""
    kept: list[str] = []
    for name in names:
        hits = [target.name for target in refused if _meet(name, target.name)]
        if not hits:
            kept.append(name)
        elif is_glob(name) and name not in hits:
            why = f"{name!r} holds {hits[0]!r} and is left out as a whole; name its tools one by one"
            remarks.lose("disallowedTools", why)
    return kept


def _meet(one: str, other: str) -> bool:
    """Whether two names or globs may mean the same tool."""
    if is_glob(one) and is_glob(other):
        heads = [re.split(r"[*?]", glob, maxsplit=1)[0] for glob in (one, other)]
        return heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])
    return fnmatchcase(one, other) or fnmatchcase(other, one)


def _agents(value: Any, remarks: Remarks) -> list[str] | None:
    """Whom the key `agents` names: a list, or a text with commas or blanks; None: everybody."""
    if value is None or value in _NULLS:
        return None
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in listed):
        remarks.fail("agents", "give names of agents: a list, or a text with commas")
        return []
    if isinstance(value, str):
        listed = value.split()
    names = [name for text in listed for name in _split(text)]
    return None if names == ["*"] else names


def _split(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]
