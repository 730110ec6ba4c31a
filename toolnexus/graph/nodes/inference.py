"""The node `inference`: one request to a model. The last message of a channel is what is said now, the ones
before it are the context, and the reply is appended to the channel. It never runs a tool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from toolnexus.core.content import part_to_wire
from toolnexus.core.messages import Message, ReasoningPart, TextPart
from toolnexus.core.names import did_you_mean, listed
from toolnexus.core.tools import Tool
from toolnexus.core.usage import Usage
from toolnexus.errors import ModelError
from toolnexus.graph.board import MAIN_CHANNEL, Board
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import GraphRunError, Interrupted
from toolnexus.graph.inference.call import Call, prepared
from toolnexus.graph.inference.generate import generate
from toolnexus.graph.inference.intents import Intent, Strict, TextIntent, ToolChoice
from toolnexus.graph.inference.reply import Rejected, Reply, usage_to_wire
from toolnexus.graph.inference.request import (
    Extension,
    GenerateInput,
    GenerateRequest,
    InputContent,
    ModelRef,
)
from toolnexus.graph.inference.streaming import Streamed
from toolnexus.graph.registry import NodeType, Role
from toolnexus.graph.tooling import offered

logger = logging.getLogger("toolnexus.graph")

FEEDBACK = "__recover_feedback."
"""Where the feedback for a node waits, unless its config says where."""
COUNT = "__recover_count."
MOST_RECOVERIES = 2
LOOK = 0.2
"""Seconds of silence after which a stream looks for an interrupt."""

Name = Annotated[str, Field(min_length=1)]
Action = Literal["commit_partial", "discard"]


class Recovery(Strict):
    """Whether the model is told when it calls a tool that was not offered, and how often in one run."""

    enabled: bool = False
    max_per_run: Annotated[int, Field(ge=0)] = 0


class FailurePolicy(Strict):
    """What becomes of text that was streamed before the request failed, or was interrupted."""

    on_error: Action = "commit_partial"
    on_interrupt: Action = "commit_partial"


class InferenceConfig(Strict):
    """The config of an `inference` node."""

    model: ModelRef | None = None
    model_hint: str | None = None
    messages_channel: str = ""
    system_prompt: str = ""
    output_key: Name | None = None
    usage_key: Name | None = None
    tool_pending_key: Name | None = None
    undefined_tool_recovery: Recovery = Recovery()
    recover_pending_key: Name | None = None
    recover_count_key: Name | None = None
    recover_feedback_key: Name | None = None
    stream: bool = False
    stream_failure_policy: FailurePolicy = FailurePolicy()
    tools: list[Name] = Field(default_factory=list[str])
    all_tools: bool = False
    tool_choice: ToolChoice | None = None
    intent: Intent | None = None
    extensions: list[Extension] = Field(default_factory=list[Extension])
    request_metadata: dict[str, str] = Field(default_factory=dict[str, str])

    @property
    def channel(self) -> str:
        """The channel of the conversation."""
        return self.messages_channel or MAIN_CHANNEL


async def run(ctx: NodeContext, board: Board, config: InferenceConfig) -> None:
    """One request, and what it gave on the board."""
    call = _prepared(ctx, board, config)
    try:
        reply = await (_streamed(ctx, board, config, call) if config.stream else generate(ctx.rail, call))
    except Rejected as rejected:
        if not _recovered(ctx, board, config, rejected):
            _keep_partial(board, config, rejected, rejected.text if config.stream else "")
            await _report_late(ctx, rejected.usage)
            raise
        await _report(ctx, rejected.usage)
        return
    except ModelError as error:
        if error.usage is not None:
            await _report_late(ctx, error.usage)
        raise
    _write(ctx, board, config, reply)  # first: what is paid for stays, whoever is slow to hear of it
    await _tell_parts(ctx, reply, streamed=config.stream)
    await _report(ctx, reply.usage)
    await _tell_end(ctx, reply)


# --- what is asked


def _prepared(ctx: NodeContext, board: Board, config: InferenceConfig) -> Call:
    messages = board.channel(config.channel)
    if not messages:
        raise _wrong(
            ctx,
            f"the channel {config.channel!r} is empty: there is nothing to answer; "
            "give the run a message, or have a node append one",
        )
    feedback = _feedback(ctx, board, config)
    if feedback is not None:
        context, now = messages, Message("user", (TextPart(feedback),))
    else:
        context, now = messages[:-1], messages[-1]
    if now.role not in ("user", "tool"):
        raise _wrong(
            ctx,
            f"the last message of the channel {config.channel!r} is of the {now.role}; "
            "it must be of the user or of tools",
        )
    if config.system_prompt and not (context and context[0].role == "system"):
        context = [Message("system", (TextPart(config.system_prompt),)), *context]
    intent, tools = _intent(ctx, config)
    request = GenerateRequest(
        model=config.model,
        model_hint=config.model_hint,
        context=context,
        input=GenerateInput(role=now.role, content=InputContent(content=now.parts, intent=intent)),
        extensions=config.extensions,
        request_metadata=config.request_metadata,
    )
    return prepared(ctx.services, request, tools)


def _intent(ctx: NodeContext, config: InferenceConfig) -> tuple[Intent, Sequence[Tool]]:
    """What is wanted, and the tools of the catalog that are offered for it."""
    intent = config.intent or Intent(text=TextIntent())
    if not (config.tools or config.all_tools or config.tool_choice):
        return intent, ()
    if intent.text is None:
        raise _wrong(ctx, f"tools go with text, and the intent wants {' and '.join(intent.kinds)}")
    if intent.text.tools is not None or intent.text.tool_choice is not None:
        raise _wrong(ctx, "tools and tool_choice stand in the node or in its intent, not in both")
    tools = _catalog(ctx, config) if config.tools or config.all_tools else ()
    text = intent.text.model_copy(update={"tool_choice": config.tool_choice})
    return intent.model_copy(update={"text": text}), tools


def _catalog(ctx: NodeContext, config: InferenceConfig) -> Sequence[Tool]:
    """The tools that the node names, or all."""
    tools = offered(ctx.services, ctx.rail.frame).tools
    known = {tool.name: tool for tool in tools}
    for name in config.tools:
        if name not in known:
            near = did_you_mean(name, known)
            raise _wrong(ctx, f"tools: there is no tool {name!r}{near}; there are {listed(known)}")
    return tools if config.all_tools else [known[name] for name in dict.fromkeys(config.tools)]


def _feedback(ctx: NodeContext, board: Board, config: InferenceConfig) -> str | None:
    """What the last round is to be told, when it was recovered."""
    key = _feedback_key(ctx, config)
    if not config.undefined_tool_recovery.enabled or key not in board:
        return None
    feedback = board[key]
    if not isinstance(feedback, str) or not feedback:
        raise _wrong(ctx, f"the variable {key!r} must hold the feedback as text")
    return feedback


def _feedback_key(ctx: NodeContext, config: InferenceConfig) -> str:
    return config.recover_feedback_key or f"{FEEDBACK}{ctx.node_id}"


def _wrong(ctx: NodeContext, problem: str) -> GraphRunError:
    return GraphRunError(f"node {ctx.node_id!r}: {problem}", kind="validation", node_id=ctx.node_id)


# --- what comes back


def _write(ctx: NodeContext, board: Board, config: InferenceConfig, reply: Reply) -> None:
    board.append(config.channel, reply.message)
    if config.output_key:
        board[config.output_key] = reply.message.to_wire()
    if config.usage_key:
        board[config.usage_key] = usage_to_wire(reply.usage)
    if config.tool_pending_key:
        board[config.tool_pending_key] = reply.finish_reason == "tool_calls"
    if config.recover_pending_key:
        board[config.recover_pending_key] = False
    if config.undefined_tool_recovery.enabled:
        board.pop(_feedback_key(ctx, config), None)


def _recovered(ctx: NodeContext, board: Board, config: InferenceConfig, rejected: Rejected) -> bool:
    """Whether the model is told what it did wrong, instead of failing the node."""
    if not config.undefined_tool_recovery.enabled or not rejected.call:
        return False
    key = config.recover_count_key or f"{COUNT}{ctx.node_id}"
    count = board.get(key, 0)
    count = count if isinstance(count, int) else 0
    if count >= (config.undefined_tool_recovery.max_per_run or MOST_RECOVERIES):
        return False
    board[_feedback_key(ctx, config)] = (
        f"You called the tool {rejected.call!r}, which is not among your tools in this turn. "
        "Call tool_search to find and select it before you call it again."
    )
    board[key] = count + 1
    if config.recover_pending_key:
        board[config.recover_pending_key] = True
    if config.tool_pending_key:
        board[config.tool_pending_key] = False
    logger.info("node %r: the model called %r, which was not offered", ctx.node_id, rejected.call)
    return True


async def _report(ctx: NodeContext, usage: Usage) -> None:
    if not ctx.counts_models:
        await ctx.report_usage(usage)


async def _report_late(ctx: NodeContext, usage: Usage) -> None:
    """Report what a request used that failed; the failure itself is told, not one of the report."""
    try:
        await _report(ctx, usage)
    except Exception as error:
        logger.warning("node %r: its usage was not taken: %s", ctx.node_id, error)


# --- streaming


async def _streamed(ctx: NodeContext, board: Board, config: InferenceConfig, call: Call) -> Reply:
    """The reply, its text handed on as it comes; what was said before a failure stays, if it may."""
    stream = Streamed(lambda sink: generate(ctx.rail, call, sink))
    try:
        while True:
            try:
                part = await stream.pieces.next_within(LOOK)
            except TimeoutError:
                _stop_if_asked(ctx, stream)
                continue
            if part is None:
                return stream.reply()
            await _tell(ctx, {"type": "part", "part": part})
            _stop_if_asked(ctx, stream)
    except Rejected as rejected:  # what becomes of its text is seen when it is known whether it is recovered
        rejected.text = rejected.text or stream.pieces.said
        raise
    except BaseException as failure:
        try:
            await stream.close()
        finally:
            _keep_partial(board, config, failure, stream.pieces.said)
        raise


def _stop_if_asked(ctx: NodeContext, stream: Streamed) -> None:
    """Raises `Interrupted` when an interrupt is pending and the reply is not there yet."""
    interrupt = None if stream.done else ctx.check_interrupt()
    if interrupt is not None:
        raise Interrupted(*interrupt)


def _keep_partial(board: Board, config: InferenceConfig, failure: BaseException, said: str) -> None:
    policy = config.stream_failure_policy
    stopped = isinstance(failure, (asyncio.CancelledError, Interrupted))
    if said and (policy.on_interrupt if stopped else policy.on_error) == "commit_partial":
        board.append(config.channel, Message("assistant", (TextPart(said),)))


# --- what others are told


async def _tell_parts(ctx: NodeContext, reply: Reply, *, streamed: bool) -> None:
    if ctx.listening:
        for part in reply.message.parts:
            if not (streamed and isinstance(part, (TextPart, ReasoningPart))):
                await _tell(ctx, {"type": "part", "part": part_to_wire(part)})


async def _tell_end(ctx: NodeContext, reply: Reply) -> None:
    if reply.provider_outputs:
        await _tell(ctx, {"type": "provider_outputs", "provider_outputs": list(reply.provider_outputs)})
    end = {"type": "finish", "finish_reason": reply.finish_reason}
    await _tell(ctx, {**end, "response_id": reply.response_id} if reply.response_id else end)


async def _tell(ctx: NodeContext, delta: Mapping[str, Any]) -> None:
    """Publish a preview. A failure is logged only: the reply is paid for, and a retry would pay again."""
    try:
        await ctx.emit(delta)
    except GraphRunError:
        raise
    except Exception as error:
        logger.warning("node %r: a delta was not published: %s", ctx.node_id, error)


def _needs(config: Mapping[str, Any]) -> list[str]:
    needed = ["router" if config.get("model") is None else "inference"]
    return [*needed, "tools"] if config.get("tools") or config.get("all_tools") else needed


_KEYS = (
    "output_key",
    "usage_key",
    "tool_pending_key",
    "recover_pending_key",
    "recover_count_key",
    "recover_feedback_key",
)

INFERENCE = NodeType(
    name="inference",
    handler=run,
    config=InferenceConfig,
    description="One request to a model: the last message of a channel is answered in it.",
    reads=(Role.messages(config_key="messages_channel"),),
    writes=(
        Role.messages(config_key="messages_channel"),
        *[Role.var(config_key=key) for key in _KEYS],
    ),
    texts=frozenset({"system_prompt"}),
    needs=_needs,
)
