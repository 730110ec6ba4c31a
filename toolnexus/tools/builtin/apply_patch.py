"""The builtin `apply_patch`: worked out in memory for all files, then made for all or for none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.changes import Change, commit, look
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.patch_grammar import Operation, parse
from toolnexus.tools.builtin.patch_hunks import patched
from toolnexus.tools.builtin.paths import not_found, resolve, root_of, shown
from toolnexus.tools.builtin.text_file import encoded, read_text
from toolnexus.tools.builtin.turns import turn

_LIMITS = definition("apply_patch").limits


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Add, change, move and delete files as one patch says."""
    clock = Clock(_LIMITS["seconds"], "no file was changed")
    return await in_time(clock, lambda: _apply(str(arguments["patchText"]), ctx, clock))


def _apply(text: str, ctx: ToolContext, clock: Clock) -> ToolResult:
    size = len(encoded(text, "patchText"))
    if size > _LIMITS["maxPatchBytes"]:
        raise ToolError(f"a patch has at most {_LIMITS['maxPatchBytes']} bytes, this one has {size}")
    operations = parse(text)
    if len(operations) > _LIMITS["maxFiles"]:
        raise ToolError(f"a patch has at most {_LIMITS['maxFiles']} files, this one has {len(operations)}")
    named = [path for one in operations for path in (one.path, one.move_to) if path is not None]
    targets = {path: resolve(path, ctx) for path in named}
    with turn(*targets.values(), clock=clock):
        plan = _Plan(targets, ctx, clock)
        try:
            for operation in operations:
                clock.check()
                plan.add(operation)
            changes = plan.changes()
        except ToolError as error:
            raise ToolError(f"no file was changed: {error}") from error
        commit(changes, clock)
    return ToolResult(
        output=f"Applied patch: {len(operations)} file operations",
        metadata={
            "added": [one.path for one in operations if one.kind == "add"],
            "updated": [one.move_to or one.path for one in operations if one.kind == "update"],
            "deleted": [one.path for one in operations if one.kind == "delete"],
        },
    )


@frozen()
class _File:
    """What a file holds: new `data`, or what is on disk at `origin`."""

    data: bytes | None
    origin: Path
    like: os.stat_result | None


class _Plan:
    """The files as the operations leave them, one after the other; nothing is written."""

    def __init__(self, targets: dict[str, Path], ctx: ToolContext, clock: Clock) -> None:
        self._targets = targets
        self._ctx = ctx
        self._clock = clock
        self._found: dict[Path, os.stat_result | None] = {}
        self._files: dict[Path, _File | None] = {}
        self._names: dict[Path, str] = {}
        self._size = 0

    def add(self, operation: Operation) -> None:
        """Take in one operation. Raises `ToolError` when it is not possible."""
        path = operation.path
        target = self._targets[path]
        if operation.kind == "add":
            self._check_free(path)
            self._files[target] = _File(operation.content, target, self._found[target])
            return
        file = self._file(path)
        if file is None:
            gone = self._found[target] is not None
            if gone:
                raise ToolError(f"{path!r} was deleted or moved by the patch before line {operation.line}")
            raise not_found(target, path)
        if operation.hunks:
            file = self._patched(file, operation)
        if operation.kind == "delete" or operation.move_to is not None:
            self._check_no_link(path)
            if operation.move_to is not None:
                self._check_free(operation.move_to)
            self._files[target] = None
        if operation.kind == "update":
            self._files[self._targets[operation.move_to or path]] = file

    def changes(self) -> list[Change]:
        """What there is to do in the end. Raises `ToolError` for a file inside another file."""
        left = {target: file for target, file in self._files.items() if self._is_changed(target, file)}
        for target, file in left.items():
            above = next((parent for parent in target.parents if parent in left), None)
            if file is None or above is None:
                continue
            if left[above] is not None:
                raise ToolError(f"{self._names[above]!r} cannot be a file and hold {self._names[target]!r}")
            raise ToolError(
                f"{self._names[target]!r} needs a directory where {self._names[above]!r} is a file until the "
                "whole patch is made; delete that in a patch of its own before"
            )
        return [
            Change(
                target=target,
                path=self._names[target],
                data=file and file.data,
                origin=file and file.origin,
                like=file and file.like,
                found=self._found[target],
            )
            for target, file in left.items()
        ]

    def _is_changed(self, target: Path, file: _File | None) -> bool:
        if file is None:
            return self._found[target] is not None
        return file.data is not None or file.origin != target

    def _file(self, path: str) -> _File | None:
        """What stands at `path` after the operations so far."""
        target = self._targets[path]
        if target not in self._files:
            found = look(target, path)
            self._check_spelling(path, found)
            self._found[target] = found
            self._names[target] = path
            self._files[target] = None if found is None else _File(None, target, found)
        return self._files[target]

    def _patched(self, file: _File, operation: Operation) -> _File:
        data = file.data
        if data is None:
            data, _ = read_text(file.origin, operation.path, _LIMITS["maxFileBytes"])
        data = patched(data, operation.hunks, operation.path, self._clock)
        if len(data) > _LIMITS["maxFileBytes"]:
            raise ToolError(f"{operation.path!r} would have more than {_LIMITS['maxFileBytes']} bytes")
        self._size += len(data)
        if self._size > _LIMITS["maxTotalBytes"]:
            raise ToolError(
                f"the changed files have more than {_LIMITS['maxTotalBytes']} bytes together; "
                "make several patches"
            )
        return _File(data, file.origin, file.like)

    def _check_free(self, path: str) -> None:
        if os.path.isdir(self._targets[path]):
            raise ToolError(
                f"{path!r} is a directory, and a patch puts no file in its place; remove it before, with bash"
            )
        if self._file(path) is not None:
            raise ToolError(f"{path!r} exists already; change it with '*** Update File', or delete it first")

    def _check_spelling(self, path: str, found: os.stat_result | None) -> None:
        """Where case does not count, two names are one file."""
        for other, known in self._found.items():
            if found is None or known is None or not os.path.samestat(known, found):
                continue
            if str(other).casefold() == str(self._targets[path]).casefold():
                raise ToolError(f"{path!r} and {self._names[other]!r} are one file here; spell it in one way")

    def _check_no_link(self, path: str) -> None:
        """A link stays when its file goes: who wants that names the file."""
        target = self._targets[path]
        above, name = os.path.split(os.path.join(root_of(self._ctx), path))
        if os.path.islink(os.path.join(os.path.realpath(above), name)):  # `..` is gone, as in the target
            raise ToolError(
                f"{path!r} is a symbolic link; name the file itself: {shown(target, self._ctx)!r}"
            )
