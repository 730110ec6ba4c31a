"""`fs`: the files of the workspace."""

from __future__ import annotations

from typing import Any

from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, shown, text
from toolnexus.graph.scripts.invocation import Function
from toolnexus.graph.workspace import Workspace

READ_BYTES = 1 << 20
WRITE_BYTES = 8 << 20


def fs(workspace: Workspace, most_read: int, most_written: int) -> Binding:
    """The global. The caps are bytes of one call."""

    async def read(path: Any) -> str:
        return await workspace.read(_path(path), most_read)

    async def write(path: Any, content: Any) -> None:
        if not isinstance(content, str):
            raise invalid(f"the content of a file must be text, not {shown(content)}")
        size = len(content.encode(errors="surrogatepass"))
        if size > most_written:
            raise invalid(f"{path!r}: {size} bytes are more than the {most_written} that may be written")
        await workspace.write(_path(path), content)

    async def exists(path: Any) -> bool:
        return await workspace.exists(_path(path))

    async def delete(path: Any) -> None:
        await workspace.delete(_path(path))

    return Binding(
        "fs",
        {
            "read": Function(read, "value, err"),
            "write": Function(write, "err"),
            "exists": Function(exists),
            "delete": Function(delete, "err"),
        },
    )


def _path(path: Any) -> str:
    return text(path, "the path")
