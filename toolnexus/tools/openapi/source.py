"""The document of a URL as a source of tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError, SourceError, ToolError
from toolnexus.protocols.http import HttpPool
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.http.keys import Keys
from toolnexus.tools.http.request import HttpRequest
from toolnexus.tools.http.template import UrlTemplate
from toolnexus.tools.openapi.build import Built, Options, build, told
from toolnexus.tools.openapi.read import parsed

logger = logging.getLogger("toolnexus.openapi")


class OpenApiSource:
    """Fetches an OpenAPI document when it opens, as a `ToolSource`. Made by `openapi_tools`.

    May be opened again after it was closed. The servers that the document names are used as long as
    they are where it is from; elsewhere only `base_url` leads.
    """

    def __init__(
        self,
        url: str,
        *,
        base_url: str | None,
        headers: Mapping[str, str] | None,
        filter: Any,
        timeout: float,
    ) -> None:
        self._address = UrlTemplate(url, "the address of an OpenAPI document")
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"
        """The address without its query."""
        self._options = options = Options.of(self.name, base_url, headers, filter, timeout)
        here = options.base is None or options.base.origin == self._address.origin
        self._keys = Keys(headers if here and headers else {}, self._address.keys, self.name)
        self._tools: tuple[Tool, ...] = ()

    def __repr__(self) -> str:
        return f"OpenApiSource({self.name!r})"

    def __iter__(self) -> Iterator[OpenApiSource]:
        """Itself: `tools=[*openapi_tools(…)]` is right whatever a document is."""
        yield self

    @property
    def tools(self) -> Sequence[Tool]:
        """Empty until it is open."""
        return self._tools

    @property
    def secrets(self) -> Sequence[str]:
        """Values that must never be shown, as far as they are known."""
        return [*self._keys.secrets, *self._options.keys.secrets]

    async def open(self, on_change: Callable[[], None]) -> None:
        """Fetch the document and make its tools.

        Raises `SourceError` when there is no document that can be used, and `ConfigError` when the
        filter names an operation that it does not have.
        """
        redact = Redactor()
        try:
            text = await self._fetched(redact)
            built = await run_in_thread(partial(self._built, text))
        except (ToolError, SourceError) as error:
            raise SourceError(redact(f"{self.name}: {error}"), source=self.name) from None
        if not built.tools and built.findings:
            raise SourceError(redact(told(built.findings, self.name)), source=self.name)
        for line in (*told(built.findings, self.name).splitlines(), built.advice):
            if line is not None:
                logger.warning("%s", redact(line))
        self._tools = tuple(built.tools)

    async def aclose(self) -> None:
        """Let go of the tools; nothing else is held."""
        self._tools = ()

    async def _fetched(self, redact: Redactor) -> str:
        from toolnexus.tools.http.exchange import exchange  # loads aiohttp

        accept = "application/json, application/yaml;q=0.9, */*;q=0.5"
        request = HttpRequest(method="GET", url=self._address.fill({}), headers={"Accept": accept})
        pool = HttpPool()
        try:
            answer = await exchange(request, self._keys, pool, self._options.timeout, redact.add)
        finally:
            await pool.aclose()
        if not answer.is_good:
            raise ToolError(f"HTTP {answer.status}: {answer.text[:200] or answer.reason}")
        if answer.cut:
            raise ToolError(f"the document has more than {len(answer.body)} bytes")
        return answer.text

    def _built(self, text: str) -> Built:
        try:
            root = parsed(text, "the document")
        except ConfigError as error:
            raise SourceError(str(error), source=self.name) from None
        return build(root, self.name, self._options, self._address.fill({}))
