"""One case as a host of this package: a Client whose models, tools and people are the runner."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from toolnexus import (
    Agent,
    Answer,
    AnthropicModel,
    Budget,
    Client,
    ConfigError,
    FunctionModel,
    Hooks,
    MemoryStore,
    Model,
    ModelConnectionError,
    ModelHTTPError,
    ModelRequest,
    ModelResponse,
    OpenAIModel,
    Request,
    RunResult,
    SkillDef,
    Tool,
    ToolContext,
    ToolError,
    ToolnexusError,
    ToolResult,
    pending,
)
from toolnexus.testing.conformance import described
from toolnexus.testing.conformance.described import in_python
from toolnexus.testing.conformance.fixture import Data

MAIN = "main"
_STYLES = {"openai": OpenAIModel, "anthropic": AnthropicModel}


class Ask(Protocol):
    """Asks the runner."""

    def __call__(self, type: str, **fields: Any) -> Awaitable[Data]: ...


class Host(Hooks):
    """Plays the steps of one case, one after the other."""

    def __init__(self, case: Data, ask: Ask) -> None:
        self._case = case
        self._ask = ask
        self._store = MemoryStore()
        self._models: dict[str, Model] = {}
        self._clients: dict[str | None, Client] = {}
        self._open = AsyncExitStack()
        self._metadata: dict[tuple[tuple[str, ...], str], Data] = {}

    async def open(self) -> Data:
        """Build the client. Gives the message that says whether it could be."""
        try:
            await self._client(None)
        except ConfigError as error:
            return {"type": "refused", "error": str(error)}
        return {"type": "ready"}

    async def play(self, step: Data) -> Data:
        """Play one step. Gives the message with what came of it."""
        client = await self._client(step.get("style"))
        try:
            if "metrics" in step:
                return _result({"text": client.metrics()})
            if "translate" in step:
                return _result({"completion": await client.translate(step["translate"])})
            return self._described(await self._run(client, step))
        except ToolnexusError as error:
            if isinstance(run := error.result, RunResult):
                return self._described(run)
            return {"type": "refused", "error": str(error)}

    async def aclose(self) -> None:
        """Close what was opened."""
        await self._open.aclose()

    def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        self._metadata[ctx.path, ctx.call_id] = dict(result.metadata)

    async def _run(self, client: Client, step: Data) -> RunResult:
        conversation = step.get("conversation")
        if "resume" in step:
            return await client.resume(conversation or step["snapshot"], step["resume"])
        return await client.ask(step["ask"], conversation=conversation)

    def _described(self, run: RunResult) -> Data:
        return {**_result(described.result(run, self._metadata)), "snapshot": run.snapshot}

    async def _client(self, style: str | None) -> Client:
        """The client whose models speak `style`; all of a case share their conversations."""
        style = style or self._case["client"].get("style")
        if style not in self._clients:
            client = self._build(style)
            self._clients[style] = await self._open.enter_async_context(client)
        return self._clients[style]

    def _build(self, style: str | None) -> Client:
        options: Data = {"model": "scripted", **self._case["client"], "style": style}
        folders = [str(Path(self._case["workdir"], folder)) for folder in options.pop("skillFolders", ())]
        if skills := [*folders, *(SkillDef(**skill) for skill in options.pop("skills", ()))]:
            options["skills"] = skills
        if "allowedModels" in options:
            options["allowedModels"] = [self._model(name, style) for name in options["allowedModels"]]
        agents = [
            Agent(**self._keywords({**spec, "style": style}, spec["name"])) for spec in self._case["agents"]
        ]
        return Client(
            **self._keywords(options, MAIN),
            tools=[self._tool(spec) for spec in self._case["tools"]],
            agents=agents,
            hooks=[self],
            store=self._store,
            workdir=self._case["workdir"],
        )

    def _keywords(self, options: Data, holder: str) -> Data:
        """Options that clients and agents share, as keyword arguments."""
        out = in_python(options)
        style = out.pop("style")
        if "model" in out:
            out["model"] = self._model(out["model"], style)
        if "budget" in out:
            out["budget"] = Budget(**in_python(out["budget"]))
        if out.pop("on_request", False):
            out["on_request"] = _Person(self._ask, holder)
        if out.pop("should_continue", False):
            out["should_continue"] = _Judge(self._ask, holder)
        return out

    def _model(self, name: str, style: str | None) -> Model:
        """The model of that name: one that the runner speaks for, or one behind its endpoint."""
        if style is not None:
            made = _STYLES[style](name, base_url=self._case["endpoint"][style], api_key="none")
            return self._models.setdefault(f"{style}:{name}", made)

        async def generate(asked: ModelRequest) -> ModelResponse:
            said = await self._ask("model", **described.request(asked, name))
            if (error := said.get("error")) is not None:
                if "status" in error:
                    raise ModelHTTPError(error["message"], status=error["status"])
                raise ModelConnectionError(error["message"])
            return described.response(said)

        return self._models.setdefault(name, FunctionModel(generate, name=name))

    def _tool(self, spec: Data) -> Tool:
        async def execute(arguments: Data, ctx: ToolContext) -> ToolResult | str:
            answer = None if ctx.answer is None else ctx.answer.to_json()
            said = await self._ask(
                "tool", name=spec["name"], arguments=arguments, path="/".join(ctx.path), answer=answer
            )
            if "ask" in said:
                return pending(**said["ask"])
            if "error" in said:
                raise ToolError(said["error"])
            return said["output"]

        return Tool(spec["name"], spec["description"], spec["inputSchema"], execute)


@dataclass(frozen=True, slots=True)
class _Person:
    """Answers questions as the runner says."""

    ask: Ask
    holder: str

    async def __call__(self, question: Request) -> Answer:
        said = await self.ask("question", of=self.holder, kind=question.kind, prompt=question.prompt)
        given = {key: said[key] for key in ("ok", "data", "reason") if key in said}
        return Answer(id=question.id, **given)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Goes on as the runner says."""

    ask: Ask
    holder: str

    async def __call__(self, _: RunResult) -> bool:
        return (await self.ask("continue", of=self.holder))["continue"]


def _result(value: Data) -> Data:
    return {"type": "result", "result": value}
