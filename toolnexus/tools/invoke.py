"""The life of one tool call: arguments, hooks, execution, questions, truncation.

Above: `engine/dispatch.py` runs batches of these inside a run, `Toolkit.execute` a single one
outside. What it is not: it knows no budget, no offer and no transcript.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

from toolnexus.core.events import Pending, ToolFinished, ToolStarted
from toolnexus.core.messages import MediaPart, ToolCallPart
from toolnexus.core.schema import original_keys
from toolnexus.core.suspension import Answer, Request, bound_to, call_digest, relayed_calls
from toolnexus.core.tools import Tool, ToolResult, pending
from toolnexus.errors import ConfigError, ToolError
from toolnexus.runtime.context import Frame, RunContext, Runnable, ToolContext
from toolnexus.runtime.hooks import HookSet, settled
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.run import Run
from toolnexus.runtime.snapshot import Waiting
from toolnexus.runtime.spill import Spill
from toolnexus.runtime.threads import run_in_thread
from toolnexus.runtime.tracing import ToolSpan, Tracing, run_fields
from toolnexus.tools.arguments import check_arguments, parse_arguments
from toolnexus.tools.truncate import cut, needs_cut

logger = logging.getLogger("toolnexus.tools")

_encode = json.JSONEncoder(ensure_ascii=False).encode

Attempt = Callable[[ToolContext], Awaitable[ToolResult]]


def failed(text: str, **metadata: Any) -> ToolResult:
    """An error result."""
    return ToolResult(output=text, is_error=True, metadata=metadata)


_GIVEN_UP = failed("interrupted: the run that made this call was stopped")
"""What an event says of a call that a cancel or a time limit ended."""


def invoke(
    tool: Tool, call: ToolCallPart, ctx: RunContext, waited: Waiting | None = None, every_kind: bool = False
) -> Coroutine[Any, Any, ToolResult]:
    """Run one call of `tool`; `waited`: go on with a call that had asked. `every_kind`: the result is not
    for a model, but for a program that takes media of any kind.

    Whatever goes wrong is a result with `is_error`; raises nothing but `CancelledError`. A result
    with `requests` means that the call asks and nobody in reach could answer.
    """
    tracing = ctx.run.tracing
    if tracing is None:
        return _counted(tool, call, ctx, waited, every_kind)
    return _traced(tracing, tool, call, ctx, waited, every_kind)


async def _traced(
    tracing: Tracing,
    tool: Tool,
    call: ToolCallPart,
    ctx: RunContext,
    waited: Waiting | None,
    every_kind: bool,
) -> ToolResult:
    with tracing.tool(ctx, tool, call) as span:
        result = await _counted(tool, call, ctx, waited, every_kind, span)
        span.ended(result)
        return result


async def _counted(
    tool: Tool,
    call: ToolCallPart,
    ctx: RunContext,
    waited: Waiting | None,
    every_kind: bool,
    span: ToolSpan | None = None,
) -> ToolResult:
    """The call with its events, which has an end and is counted whatever way it ends."""
    run, frame = ctx.run, ctx.frame
    began = time.perf_counter()
    result = _GIVEN_UP
    parsed, arguments = _arguments(tool, call, run)
    if run.emit is not None:
        run.emit(ToolStarted(path=frame.path, name=tool.name, call_id=call.id, arguments=parsed))
    try:
        if isinstance(arguments, ToolResult):
            done = arguments
        else:
            seen = ToolContext(context=ctx, call=call, tool=tool, arguments=arguments, _span=span)
            hooks = frame.hooks
            attempt = _hooked if hooks.before_tool or hooks.after_tool else _executed
            if waited is None or waited.child is not None:
                seen.resumed = waited.child if waited is not None else None
                done = await attempt(seen)
            else:
                done = ToolResult(requests=waited.requests)
            if done.requests and done.child is None:
                done = await _answered(seen, done.requests, attempt)
        if not (done.requests or _fits(done, run)):
            done = await _fit(done, run, every_kind)
        result = done
    finally:
        seconds = time.perf_counter() - began
        if run.counts is not None:
            run.counts.tool(tool.name, tool.source, result.is_error, seconds)
        if run.emit is not None:
            run.emit(
                ToolFinished(path=frame.path, name=tool.name, call_id=call.id, result=result, seconds=seconds)
            )
    return result


def _arguments(
    tool: Tool, call: ToolCallPart, run: Run
) -> tuple[dict[str, Any] | None, dict[str, Any] | ToolResult]:
    """The parsed arguments, None when they do not parse; and the checked ones, or the refusal."""
    parsed: dict[str, Any] | None = None
    try:
        parsed = parse_arguments(call.arguments)
        return parsed, _checked(tool, parsed)
    except (ToolError, ConfigError) as error:
        return parsed, failed(str(error))
    except Exception as error:  # a check that a tool brings along is foreign code
        return parsed, failed(
            f"not run: the arguments of {tool.name!r} could not be checked: {_text(error, run)}"
        )


def _checked(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    if tool.validate is None:
        return check_arguments(tool, arguments)
    if keys := original_keys(tool):
        arguments = {keys.get(key, key): value for key, value in arguments.items()}
    return tool.validate(arguments)


async def _answered(ctx: ToolContext, asked: Sequence[Request], attempt: Attempt) -> ToolResult:
    """The result of a tool that asked, after the nearest one who answers did."""
    run, frame = ctx.context.run, ctx.context.frame
    request, *others = asked
    if others:
        return failed(f"{ctx.tool.name!r} asks {len(asked)} questions at once; one call asks one")
    answer = run.answers.get(request.id)
    if answer is None:
        try:
            if frame.relays is None or not relayed_calls(request):
                request, answer = await _put(request, ctx)
            else:
                request, answer = await frame.relays.put(ctx.call_id, request, partial(_put, ctx=ctx))
        except (Exception, asyncio.CancelledError) as error:
            _pass_cancel(error, ctx)
            extra = run_fields(ctx.context, ctx.call_id)
            logger.warning("on_request failed: %s", _text(error, run), extra=extra)
            return failed(f"nobody could answer: {_text(error, run)} (the question was: {request.prompt})")
    if answer is None:
        return ToolResult(requests=(request,))
    if not answer.ok:
        return failed(f"{answer.reason or 'declined'}: {request.prompt}")
    ctx.answer, ctx.bound, ctx.approving = answer, bound_to(request, ctx.call_id), _is_approval(request)
    approved = ctx.approving
    result = await attempt(ctx)
    if not result.requests or result.child is not None:
        return result
    if approved:  # now it is the tool itself that asks
        return await _answered(ctx, result.requests, attempt)
    return failed(f"unresolved: {result.requests[0].prompt}")


async def _put(request: Request, ctx: ToolContext) -> tuple[Request, Answer | None]:
    """The question as it is asked, and what the nearest one who answers says; None when nobody does."""
    run, frame = ctx.context.run, ctx.context.frame
    if request.digest is None:
        request = _located(request, ctx)
    if run.emit is not None:
        run.emit(Pending(path=frame.path, request=request))
    return request, None if frame.asker is None else await frame.asker.ask(request, frame)


async def _hooked(ctx: ToolContext) -> ToolResult:
    """The tool between its hooks. A raising hook fails closed."""
    run, hooks = ctx.context.run, ctx.context.frame.hooks
    try:
        for hook in hooks.before_tool:
            early = await settled(hook(ctx))
            if isinstance(early, ToolResult):
                return _sound(early)
            if isinstance(early, Mapping):
                ctx.arguments = _checked(ctx.tool, dict(cast("Mapping[str, Any]", early)))
            elif early is not None:
                raise TypeError(f"before_tool may return a ToolResult, a mapping or None, not {_kind(early)}")
    except (Exception, asyncio.CancelledError) as error:
        _pass_cancel(error, ctx)
        ctx.failed(error)
        return failed(f"not run: a hook refused {ctx.tool.name!r}: {_text(error, run)}")
    return await _after(ctx, await _executed(ctx))


async def _after(ctx: ToolContext, result: ToolResult) -> ToolResult:
    run, hooks = ctx.context.run, ctx.context.frame.hooks
    try:
        for hook in hooks.after_tool:
            changed = await settled(hook(ctx, result))
            if changed is not None and not isinstance(changed, ToolResult):
                raise TypeError(f"after_tool may return a ToolResult or None, not {_kind(changed)}")
            result = result if changed is None else _sound(changed)
    except (Exception, asyncio.CancelledError) as error:
        _pass_cancel(error, ctx)
        ctx.failed(error)
        return failed(f"the result of {ctx.tool.name!r} was withheld: {_text(error, run)}")
    return result


async def _executed(ctx: ToolContext) -> ToolResult:
    if ctx.bound is not None and ctx.bound != call_digest(ctx.tool.name, ctx.arguments):
        return failed(f"refused: the arguments of {ctx.tool.name!r} are not those that the answer was for")
    if ctx.context.frame.permissions and (held := _held(ctx)) is not None:
        return held
    try:
        value: Any = await ctx.tool.execute(ctx.arguments, ctx)
        if isinstance(value, str):
            return ToolResult(output=value)
        return _sound(value if isinstance(value, ToolResult) else _result_of(value))
    except asyncio.CancelledError as error:
        if ctx.context.frame.is_cancelled:
            ctx.cancel()
        _pass_cancel(error, ctx)
        ctx.failed(error)
        return failed(f"{ctx.tool.name!r} was cancelled from inside")
    except ToolError as error:
        ctx.failed(error)
        return failed(_text(error, ctx.context.run).removeprefix("ToolError: "))
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a tool is foreign code; its failure is the model's to judge
        if logger.isEnabledFor(logging.DEBUG):
            trace = "".join(traceback.format_exception(error))
            extra = run_fields(ctx.context, ctx.call_id)
            logger.debug("tool %r failed\n%s", ctx.tool.name, ctx.context.run.redact(trace), extra=extra)
        ctx.failed(error)
        return failed(f"{ctx.tool.name!r} failed: {_text(error, ctx.context.run)}")


async def handed_over(ctx: ToolContext, result: ToolResult) -> ToolResult:
    """A result that comes without a call, as a model may read it: after the hooks, bounded, and without
    our secrets. Raises nothing but `CancelledError`."""
    result = await _after(ctx, result)
    return result if _fits(result, ctx.context.run) else await _fit(result, ctx.context.run)


def _held(ctx: ToolContext) -> ToolResult | None:
    """What stands in the way of a call: a refusal, or the question whether it may run."""
    run, frame = ctx.context.run, ctx.context.frame
    from toolnexus.tools.permissions import strictest
    from toolnexus.tools.pre_approval import is_pre_approved

    found = strictest(frame.permissions, ctx.tool, ctx.arguments, ctx.workdir)
    if found is None or found[0].verdict == "allow":
        return None
    rule, where = found
    if rule.verdict == "deny":
        return failed(
            f"denied: {ctx.tool.name!r} may not be called so ({where}: {rule.text!r}); do without it"
        )
    key = "#".join((*ctx.path, ctx.call_id, call_digest(ctx.tool.name, ctx.arguments)))
    if ctx.approving:
        run.approved.add(key)
        ctx.answer, ctx.approving = None, False
    if key in run.approved or is_pre_approved(frame, ctx.tool, ctx.arguments, ctx.workdir):
        return None
    data = {"tool": ctx.tool.name, "arguments": ctx.arguments, "rule": rule.text}
    shown = json.dumps(ctx.arguments, ensure_ascii=False, default=str)
    return pending(kind="approval", prompt=f"run {ctx.tool.name} with {shown}?", data=data)


def _is_approval(request: Request) -> bool:
    """Whether a rule asks, and not the tool."""
    return request.kind == "approval" and "rule" in (request.data or {})


def _result_of(value: object) -> ToolResult:
    """The result that a bare tool meant. Raises `TypeError` and `ValueError` for what JSON cannot hold."""
    try:
        return ToolResult(output=_encode(value))
    except (TypeError, ValueError):  # whatever holds media ends here
        from toolnexus.tools.media_values import media_result

        result = media_result(value, _encode)
        if result is None:
            raise
        return result


def _sound(result: ToolResult) -> ToolResult:
    """`result`, or the error that says what in it cannot go into a transcript."""
    parts: Any = result.parts
    if not isinstance(result.output, str):
        return failed(f"the tool gave a ToolResult whose output is {_kind(result.output)}, not text")
    if not isinstance(result.metadata, Mapping):
        return failed(f"the tool gave a ToolResult whose metadata is {_kind(result.metadata)}, not a mapping")
    if not isinstance(parts, (tuple, list)):
        return failed(
            f"the tool gave a ToolResult whose parts are {_kind(parts)}; give a tuple of MediaParts: (part,)"
        )
    for part in cast("Sequence[Any]", parts):
        if not isinstance(part, MediaPart):
            return failed(
                f"the tool gave a ToolResult with {_kind(part)} among its parts; give MediaParts there"
            )
    if not all(isinstance(request, Request) for request in result.requests):
        return failed("the tool gave a ToolResult whose requests are no Requests; use pending(…)")
    return result


def _pass_cancel(error: BaseException, ctx: ToolContext) -> None:
    """Raise a cancel that somebody asked for; one that foreign code made up is a failure like others."""
    if isinstance(error, asyncio.CancelledError) and ctx.context.frame.is_cancelled:
        raise error


def _kind(value: object) -> str:
    return type(value).__name__


def _text(error: BaseException, run: Run) -> str:
    try:
        return run.redact(f"{_kind(error)}: {error}".removesuffix(": "))
    except Exception:  # an error that cannot even be shown
        return _kind(error)


def _located(request: Request, ctx: ToolContext) -> Request:
    digest = call_digest(ctx.tool.name, ctx.arguments)
    return replace(located(request, ctx.path, ctx.context.run.redact), digest=digest)


def located(request: Request, path: Sequence[str], redact: Redactor) -> Request:
    """`request` with the path of who asks, as it may be shown, reported and kept."""
    shown = redact.within({**(request.data or {}), "path": list(path)})
    url = request.url and redact(request.url)
    return replace(request, prompt=redact(request.prompt), url=url, data=shown)


def _fits(result: ToolResult, run: Run) -> bool:
    """Whether the result can go on as it is: the usual case."""
    output = result.output
    plain = not (result.metadata or result.parts)
    return plain and not needs_cut(output) and run.redact(output) is output


async def _fit(result: ToolResult, run: Run, every_kind: bool = False) -> ToolResult:
    """The result as a model may read it: bounded, and without our secrets."""
    if result.parts:
        from toolnexus.tools.media_bounds import bounded

        result = await bounded(result, run, every_kind)
    output = run.redact(result.output)
    if (told := run.redact.within(result.metadata)) is not result.metadata:
        result = replace(result, metadata=told)
    if needs_cut(output):
        try:
            where = str(await run_in_thread(run.spill.write, output))
        except OSError as error:
            return replace(result, output=cut(output, f"no file ({_text(error, run)})"))
        return replace(result, output=cut(output, where), metadata={**result.metadata, "outputPath": where})
    return result if output is result.output else replace(result, output=output)


_outside = Spill()
"""Long outputs of calls outside any client, which nobody closes: kept until the interpreter ends."""
atexit.register(_outside.close)


class _NoRunner:
    """Outside a run there is nothing that could run another one."""

    async def run(self, target: Runnable, input: Any, *, parent: RunContext, key: str, **_: Any) -> NoReturn:
        raise ToolError(f"cannot run {target.name!r} here: this tool is called outside a client")


def detached() -> RunContext:
    """A context for a call outside any run: the working directory, no limits, nobody to ask."""
    path = ("toolkit",)
    frame = Frame(
        path=path,
        agent="toolkit",
        depth=0,
        ledger=Ledger(path, "toolkit"),
        hooks=HookSet(),
        workdir=Path.cwd(),
    )
    return RunContext(Run(runner=_NoRunner(), spill=_outside), frame, {})
