"""What the scenarios of the MCP conformance package expect of a server, as far as it is tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.serving.kit import PNG, Changing
from toolnexus import MediaPart, Tool, ToolContext, ToolResult, pending, tool

WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
USER: dict[str, Any] = {
    "type": "object",
    "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
    "required": ["username", "email"],
}
DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
PLAIN = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{i}", "title": f"Choice {i}"} for i in (1, 2, 3)]
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": PLAIN},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": PLAIN}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool
async def test_simple_text() -> str:
    """Say something."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> MediaPart:
    """Show a dot."""
    return MediaPart("image/png", data=PNG)


@tool
async def test_audio_content() -> MediaPart:
    """Be silent."""
    return MediaPart("audio/wav", data=WAV)


@tool
async def test_embedded_resource() -> MediaPart:
    """Give a file."""
    return MediaPart("application/octet-stream", data="AAH/", name="file.bin")


@tool
async def test_multiple_content_types() -> list[str | MediaPart]:
    """Give a text, an image and a file."""
    file = MediaPart("application/octet-stream", data="AAH/", name="file.bin")
    return ["Multiple content types test:", MediaPart("image/png", data=PNG), file]


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Work, step by step."""
    for done in (0, 50, 100):
        ctx.emit(f"{done} of 100", progress=done, total=100)
    return "done"


@tool
async def test_elicitation(message: str, ctx: ToolContext) -> str | ToolResult:
    """Ask for a user."""
    return _asked(ctx, message, USER)


@tool
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str | ToolResult:
    """Ask with defaults."""
    return _asked(ctx, "Whom?", DEFAULTS)


@tool
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> str | ToolResult:
    """Ask with choices."""
    return _asked(ctx, "Which?", ENUMS)


@tool
async def test_input_required_result_elicitation(ctx: ToolContext) -> str | ToolResult:
    """Ask for a name."""
    return _asked(ctx, "What is your name?", NAME)


@tool
async def test_input_required_result_request_state(ctx: ToolContext) -> str | ToolResult:
    """Ask, and know what was asked."""
    said = _asked(ctx, "Please confirm", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
    return said if isinstance(said, ToolResult) else f"state-ok: {said}"


@tool
async def test_streaming_elicitation(ctx: ToolContext) -> str | ToolResult:
    """Ask in the middle of the work."""
    ctx.emit("working", progress=1, total=2)
    return _asked(ctx, "Go on?", NAME)


@tool
async def test_logging_tool(ctx: ToolContext) -> str:
    """Work, and say so."""
    ctx.emit("working", progress=1, total=1)
    return "worked"


@tool
async def test_input_required_result_tampered_state(ctx: ToolContext) -> str | ToolResult:
    """Ask, and notice when the question was changed."""
    return _asked(ctx, "Please confirm", {"type": "object", "properties": {"ok": {"type": "boolean"}}})


def _asked(ctx: ToolContext, prompt: str, schema: Mapping[str, Any]) -> str | ToolResult:
    if ctx.answer is None:
        return pending(kind="input", prompt=prompt, data={"schema": schema})
    return f"User response: {ctx.answer.data}"


HEADER: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


async def _json_schema(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
    return f"called with {sorted(arguments)}"


def tools() -> list[Any]:
    """All of them, with a source whose tools change when it is asked to."""
    source = Changing()

    @tool
    async def test_trigger_tool_change() -> str:
        """Change what is there."""
        source.offer("test_new")
        return "changed"

    return [*TOOLS, test_trigger_tool_change, source]


TOOLS: list[Any] = [
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
    *(test_multiple_content_types, test_error_handling, test_tool_with_progress),
    *(test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
    *(test_input_required_result_elicitation, test_input_required_result_request_state),
    *(test_input_required_result_tampered_state, test_streaming_elicitation, test_logging_tool),
    Tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", SCHEMA, _json_schema),
    Tool("test_x_mcp_header", "Tool with an argument that is a header, too", HEADER, _json_schema),
]
