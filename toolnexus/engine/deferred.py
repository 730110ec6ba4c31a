"""Deferred tools: of very many, most are not declared; a model finds them with `tool_search`.

What is found is declared behind all others from the next request on, for the rest of that run, so the
declarations that an endpoint has cached stay as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

from toolnexus.core.names import did_you_mean, listed
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.engine.ranking import Ranking
from toolnexus.engine.view import TOOL_SEARCH
from toolnexus.runtime.context import Frame, ToolContext

MOST_FOUND = 10
_LONGEST_DESCRIPTION = 300
_MOST_GROUPS = 30
_DECLARED = frozenset(("builtin", "skill", "agent"))
"""Sources whose tools are few, and stay."""
_DEFERRED = frozenset(("mcp", "http", "a2a"))
"""Sources of the long tail."""

_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "Words for what is to be done, or the names of tools, separated by blanks.",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}
_ABOUT = """\
Find more tools. Besides the tools that you see there are {count} more, of {groups}. Search whenever none of \
the tools that you see does what is needed: say in a few words what is to be done. The best matches come \
back, at most {most}, with what they do; you can call them from your next message on."""


def split(tools: Sequence[Tool], most: int) -> tuple[list[Tool], list[Tool]]:
    """The tools to declare and those to defer, both in their order, where `tools` are more than `most`.

    Builtins, skills and `task` stay, then come functions and other tools of the host, as many as there is
    room for; the tools of servers and documents are deferred.
    """
    room = most - sum([tool.source in _DECLARED for tool in tools])
    stay: list[Tool] = []
    rest: list[Tool] = []
    for tool in tools:
        if tool.source in _DECLARED:
            stay.append(tool)
        elif tool.source in _DEFERRED or room <= 0:
            rest.append(tool)
        else:
            stay.append(tool)
            room -= 1
    return stay, rest


class Deferred:
    """The tools of one view that are not declared before a run has found them."""

    def __init__(self, tools: Sequence[Tool], taken: Container[str]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._ranking: Ranking | None = None
        groups = Counter([tool.origin or tool.source for tool in tools])
        self._groups = _listed_groups(groups)
        name = TOOL_SEARCH
        while name in taken or name in self._tools:
            name += "_"
        about = _ABOUT.format(count=len(tools), groups=self._groups, most=MOST_FOUND)
        self.search = Tool(name, about, _SCHEMA, self._search, source="builtin")
        """The tool that finds them."""

    def loaded(self, frame: Frame) -> tuple[Tool, ...]:
        """What the run of `frame` has found, in that order.

        A run that goes on with a conversation has what was called in it.
        """
        return tuple([self._tools[name] for name in self._names(frame) if name in self._tools])

    def answer(self, frame: Frame, name: str) -> str | None:
        """What a model reads when it calls a tool that it has not found yet: how to call it.

        It can be called from the next request on. None for a name that is none of these.
        """
        tool = self._tools.get(name)
        if tool is None:
            return None
        from toolnexus.tools.declarations import to_openai

        self._names(frame).setdefault(name)
        schema = json.dumps(to_openai([tool])[0]["function"]["parameters"], ensure_ascii=False)
        return (
            f"not run: {name!r} was not loaded yet. It is now: call it again with arguments of this schema.\n"
            f"{_line(tool)}\n{schema}"
        )

    def unknown(self, name: str, declared: Sequence[str]) -> str:
        """What a model reads when it calls a tool that does not exist."""
        near = did_you_mean(name, [*declared, *self._tools])
        more = f"{len(self._tools)} more that {self.search.name} finds"
        return f"unknown tool {name!r}; available: {listed(declared)} and {more}{near}"

    def _names(self, frame: Frame) -> dict[str, None]:
        names: dict[str, None] | None = frame.memo.get(Deferred)
        if names is None:
            calls = [call.name for message in frame.transcript for call in message.tool_calls]
            names = frame.memo[Deferred] = dict.fromkeys([name for name in calls if name in self._tools])
        return names

    async def _search(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if self._ranking is None:
            self._ranking = Ranking(list(self._tools.values()))
        query: str = arguments["query"]
        found = self._ranking.best(query)
        if not found:
            return ToolResult(
                output=f"no tool matches {query!r}; there are tools of {self._groups}: try other words",
                metadata={"tools": []},
            )
        shown = found[:MOST_FOUND]
        self._names(ctx.context.frame).update(dict.fromkeys([tool.name for tool in shown]))
        lines = ["You can call these from your next message on:", *[_line(tool) for tool in shown]]
        if len(found) > len(shown):
            lines.append(f"{len(found) - len(shown)} more match; say more precisely what is to be done.")
        return ToolResult(output="\n".join(lines), metadata={"tools": [tool.name for tool in shown]})


def _listed_groups(groups: Counter[str]) -> str:
    """`github (40), jira (12)`: how many tools each place has, by name."""
    names = [f"{name} ({count})" for name, count in sorted(groups.items())]
    more = [f"{len(names) - _MOST_GROUPS} more places"] if len(names) > _MOST_GROUPS else []
    return ", ".join([*names[:_MOST_GROUPS], *more])


def _line(tool: Tool) -> str:
    about = " ".join(tool.description.split())
    if len(about) > _LONGEST_DESCRIPTION:
        about = about[:_LONGEST_DESCRIPTION] + "…"
    return f"- {tool.name}: {about}" if about else f"- {tool.name}"
