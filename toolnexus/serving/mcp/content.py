"""Results as MCP content."""

from __future__ import annotations

import mcp_types as types

from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import ToolResult
from toolnexus.core.unicode import encodable


def call_result(result: ToolResult) -> types.CallToolResult:
    """`result` with everything that a model may see, and nothing of what only the host does."""
    text = result.output
    files = [result.metadata.get("outputPath"), *result.metadata.get("mediaPaths", ())]
    for path in files:  # of this machine
        if isinstance(path, str):
            text = text.replace(path, "a file of the server")
    blocks: list[types.ContentBlock] = [_block(part) for part in result.parts]
    if text or not blocks:
        blocks.insert(0, types.TextContent(text=encodable(text)))
    return types.CallToolResult(content=blocks, is_error=result.is_error)


def failed(text: str) -> types.CallToolResult:
    """An error that a model can read."""
    return types.CallToolResult(content=[types.TextContent(text=encodable(text))], is_error=True)


def _block(part: MediaPart) -> types.ContentBlock:
    name = encodable(part.name or "attachment")
    if part.data is None:
        return types.ResourceLink(name=name, uri=part.url or "", mime_type=part.mime_type or None)
    kind = part.mime_type.partition("/")[0]
    if kind == "image":
        return types.ImageContent(data=part.data, mime_type=part.mime_type)
    if kind == "audio":
        return types.AudioContent(data=part.data, mime_type=part.mime_type)
    resource = types.BlobResourceContents(
        uri=f"attachment:///{name}", mime_type=part.mime_type or None, blob=part.data
    )
    return types.EmbeddedResource(resource=resource)
