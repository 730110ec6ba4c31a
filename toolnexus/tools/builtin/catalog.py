"""The builtin tools, each implemented in the module of its name, which is imported at the first call."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from toolnexus.core.tools import Execute, Tool
from toolnexus.tools.builtin.loader import definition, names

NAMES = names()
"""Every builtin that is defined, sorted."""

BOUND_ELSEWHERE = frozenset({"task", "task_stop", "task_wait"})
"""Defined like all others, but implemented where runs can be started: in the engine."""

REPEATABLE = frozenset({"glob", "grep", "question", "read", "todowrite", "webfetch"})
"""Those whose calls may run again when nobody knows whether they did."""


def builtin_tools() -> list[Tool]:
    """The builtins implemented here, sorted by name, `source="builtin"`."""
    return [_Builtin(name) for name in NAMES if name not in BOUND_ELSEWHERE]


class _Builtin(Tool):
    """Its definition is read when it is first declared or called: a client knows all of them by name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "", {}, _bound(name), source="builtin", idempotent=name in REPEATABLE)
        del self.description

    @cached_property
    def description(self) -> str:
        return definition(self.original_name).description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return definition(self.original_name).input_schema


def _bound(name: str) -> Execute:
    async def execute(arguments: dict[str, Any], ctx: Any) -> Any:
        module = importlib.import_module(f"toolnexus.tools.builtin.{name}")
        return await module.execute(arguments, ctx)

    return execute
