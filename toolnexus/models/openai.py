"""Chat completions: the style of OpenAI and of most other servers.

Above: the client. Below: `hosted` (request on its way), `openai_request`, `openai_reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from toolnexus.models.encode import Encoded, dumps, remembered
from toolnexus.models.keys import Provider
from toolnexus.models.openai_media import OpenAIMedia

if TYPE_CHECKING:
    from toolnexus.core.messages import Message
    from toolnexus.core.model import ModelRequest, ModelSink, OutputSpec
    from toolnexus.core.tools import Tool
    from toolnexus.models.hosted import Reading
    from toolnexus.models.openai_reply import OpenAIReading
    from toolnexus.models.structured import Way


class OpenAIModel(OpenAIMedia):
    """A model behind an endpoint that speaks chat completions.

    `base_url` is the address before `/chat/completions` (default: `OPENAI_BASE_URL`, then OpenAI);
    `api_key` the bearer key (default: the variable of a known host); `headers` go with every request.
    `retries` is a number or a `RetryPolicy`. `params` are merged into every body and win;
    `body_transform` gets each body as a dict and returns the one to send. `wire` is `"sdk"`, an async
    client of the `openai` SDK, or a `Wire`; it then carries address, key and headers itself.
    `structured` says how typed answers are asked for: `"native"` (`response_format`), `"tool"`,
    `"prompt"`, or None: the first of these that the endpoint has.

    Raises `ConfigError` for options that cannot work, among them a known host without a key.
    """

    provider: ClassVar[Provider] = "openai"

    @property
    def _path(self) -> str:
        return "/chat/completions"

    def _defaults(self, streamed: bool) -> dict[str, Any]:
        return {"stream_options": {"include_usage": True}} if streamed else {}

    def _has_native(self, output: OutputSpec) -> bool:
        return True

    def _asking(self, output: OutputSpec, way: Way) -> Mapping[str, Any]:
        if way == "tool":
            return {"tool_choice": "required"}
        if way == "prompt":
            return {}
        from toolnexus.models.strict_schema import OPENAI, loose_schema, strict_schema

        strict = strict_schema(output, OPENAI)
        schema = loose_schema(output) if strict is None else strict
        form = {"name": output.name, "schema": schema, "strict": strict is not None}
        if output.description:
            form["description"] = output.description
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def _translated(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return options

    def _pieces(self, request: ModelRequest) -> tuple[bytes, list[bytes]]:
        origin, memo = self.origin, request.memo
        known = memo.get(origin)
        if known is None:
            known = memo[origin] = Encoded(_encoder(origin))
        messages: list[bytes] = known.all(request.messages)
        if request.system:
            system = {"role": "system", "content": request.system}
            key = (origin, "system")
            messages = [remembered(memo, key, request.system, lambda: dumps(system)), *messages]
        if not request.tools:
            return b"", messages
        return self._offer(request, _encoded), messages

    def _reading(self, sink: ModelSink | None) -> Reading:
        return _reader()(self.origin, sink, self._redact)


@cache  # an import costs more than a reading, every time
def _reader() -> type[OpenAIReading]:
    from toolnexus.models.openai_reply import OpenAIReading

    return OpenAIReading


@lru_cache(maxsize=64)  # every run would hold one of its own
def _encoder(origin: str) -> Callable[[Message], bytes]:
    from toolnexus.models.openai_request import encode_message

    return partial(encode_message, origin=origin)


def _encoded(tools: Sequence[Tool]) -> bytes:
    from toolnexus.models.openai_request import encode_tools

    return encode_tools(tools)
