"""Anthropic messages: the style of Anthropic and of the servers that follow it.

Above: the client. Below: `hosted` (request on its way), `anthropic_request`, `anthropic_reply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from toolnexus.core.model import ModelRequest, ModelResponse, ModelSink, OutputSpec
from toolnexus.core.schema import normalise
from toolnexus.errors import ModelHTTPError
from toolnexus.models.anthropic_options import anthropic_options
from toolnexus.models.anthropic_reply import AnthropicReading
from toolnexus.models.anthropic_request import Turns, encode_system, encode_tools
from toolnexus.models.encode import remembered
from toolnexus.models.hosted import HostedModel, Reading
from toolnexus.models.keys import Provider
from toolnexus.models.strict_schema import ANTHROPIC, strict_schema
from toolnexus.models.structured import Way

MAX_TOKENS = 16_384
_OFF = {"type": "disabled"}
_STALE = "bound to a different conversation"


class AnthropicModel(HostedModel):
    """A model behind an endpoint that speaks Anthropic messages.

    `base_url` is the address before `/v1/messages`, with or without the `/v1` (default:
    `ANTHROPIC_BASE_URL`, then Anthropic); `api_key` the key (default: the variable of a known host);
    `headers` go with every request. `retries` is a number or a `RetryPolicy`. `params` are merged into
    every body and win (`max_tokens` is 16384 otherwise); `body_transform` gets each body as a dict and
    returns the one to send. `wire` is `"sdk"`, an async client of the `anthropic` SDK, or a `Wire`; it
    then carries address, key and headers itself. `structured` says how typed answers are asked for:
    `"native"` (`output_config.format`), `"tool"`, `"prompt"`, or None: the first of these that works.

    The prompt is cached: tools, system prompt and the two last turns of the user are marked. Raises
    `ConfigError` for options that cannot work, among them a known host without a key.
    """

    provider: ClassVar[Provider] = "anthropic"

    async def generate(self, request: ModelRequest) -> ModelResponse:
        try:
            return await super().generate(request)
        except ModelHTTPError as error:
            if error.status != 400 or _STALE not in str(error):
                raise
            refused = error
        # Newer models sign their thinking together with all that stood before it. When a hook, another
        # tool or a shorter history has changed that, only a history without it is accepted.
        self._turns(request).forget_thinking(request.messages)
        request.retry(attempt=1, delay=0.0, error=refused)
        return await super().generate(request)

    @property
    def _path(self) -> str:
        return "/v1/messages"

    def _defaults(self, streamed: bool) -> dict[str, Any]:
        return {"max_tokens": MAX_TOKENS}

    @property
    def _thinks(self) -> bool:
        thinking = self._params.get("thinking")
        return isinstance(thinking, Mapping) and cast("Any", thinking).get("type") != "disabled"

    def _has_native(self, output: OutputSpec) -> bool:
        return strict_schema(output, ANTHROPIC) is not None

    def _asking(self, output: OutputSpec, way: Way) -> Mapping[str, Any]:
        if way == "native":
            schema = strict_schema(output, ANTHROPIC) or normalise(output.schema)
            form = {"type": "json_schema", "schema": schema}
            return {"output_config": {"format": form}}
        if way == "tool" and not self._thinks:  # who thinks cannot be made to call
            return {"tool_choice": {"type": "any"}}
        return {}

    def _fields(self, streamed: bool, tools: bool, asking: Mapping[str, Any]) -> dict[str, Any]:
        fields = super()._fields(streamed, tools, asking)
        if "output_config" in asking:
            fields["output_config"] = {**asking["output_config"], **self._params.get("output_config", {})}
        return fields

    def _joined(self, options: Mapping[str, Any], asking: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = {**options, **asking}
        if "output_config" in options and "output_config" in asking:
            fields["output_config"] = {**options["output_config"], **asking["output_config"]}
        if options.get("thinking", _OFF) != _OFF and fields.get("tool_choice") == {"type": "any"}:
            del fields["tool_choice"]  # who thinks cannot be made to call
        return fields

    def _translated(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return anthropic_options(options)

    def _pieces(self, request: ModelRequest) -> tuple[bytes, list[bytes]]:
        origin, memo = self.origin, request.memo
        members: list[bytes] = []
        if request.tools:
            members.append(self._offer(request, encode_tools))
        if request.system and "system" not in self._params:
            system = request.system
            members.append(remembered(memo, (origin, "system"), system, lambda: encode_system(system)))
        return b",".join(members), self._turns(request).all(request.messages)

    def _turns(self, request: ModelRequest) -> Turns:
        turns = request.memo.get(self.origin)
        if turns is None:
            turns = request.memo[self.origin] = Turns(self.origin)
        return turns

    def _reading(self, sink: ModelSink | None) -> Reading:
        return AnthropicReading(self.origin, sink, self._redact)
