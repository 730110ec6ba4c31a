"""Which model a command can use: named, given by the environment, or running on this machine."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolnexus.cli.exits import UsageError
from toolnexus.engine.environment import NO_MODEL
from toolnexus.errors import ConfigError
from toolnexus.models.keys import endpoint
from toolnexus.models.registry import split_spec

OPENAI_MODEL = "openai:gpt-5-mini"
ANTHROPIC_MODEL = "anthropic:claude-haiku-4-5"
"""Small and current: what a key without a model name gets."""

LOCAL_SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080))
PROBE_SECONDS, ASK_SECONDS = 0.5, 10.0
"""How long a server that may be there, and one that was named, may take to list its models."""
_LARGEST_LIST = 1 << 20
_NO_CHAT = ("embed", "rerank", "whisper")

WAYS = """Three ways to go on, each a line to paste:
  export OPENAI_API_KEY=sk-...         # or ANTHROPIC_API_KEY; then the same command again
  ollama run qwen3                     # a model on this machine is found by itself
  export TOOLNEXUS_MODEL=openai:NAME OPENAI_BASE_URL=http://HOST:PORT/v1     # any other endpoint
To see it work without any model: toolnexus demo"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A model, and how it came to be chosen."""

    spec: str
    """`provider:name`."""
    base_url: str | None = None
    api_key: str | None = None
    why: str

    @property
    def expression(self) -> str:
        """The model as an option of a client in Python; a key is never part of it."""
        if self.base_url is None:
            return repr(self.spec)
        return f"OpenAIModel({self.spec.partition(':')[2]!r}, base_url={self.base_url!r})"


def choose(
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    where: str = "--base-url",
) -> Found:
    """The model that the options name, or else the first one there is. `where` says `base_url`.

    Raises `UsageError` that names three ways to go on when there is none, or when it lacks its key.
    """
    spec = model or os.environ.get("TOOLNEXUS_MODEL")
    if spec:
        why = "--model" if model else "TOOLNEXUS_MODEL"
        try:
            split_spec(spec)
        except ConfigError as error:
            raise UsageError(f"{why}: {error}") from error
        return _with_key(Found(spec=spec, base_url=base_url, api_key=api_key, why=why))
    if base_url is not None:
        return _served(base_url, api_key, where)
    if api_key is not None and not os.environ.get("OPENAI_BASE_URL"):
        raise UsageError("--api-key-env: nothing says whose key it is; give --model or --base-url, too")
    found = _by_environment(api_key) or _on_this_machine()
    if found is None:
        raise UsageError(f"{NO_MODEL.partition('.')[0]}. {WAYS}")
    return _with_key(found)


def _by_environment(api_key: str | None) -> Found | None:
    if os.environ.get("OPENAI_BASE_URL"):  # it decides where an OpenAI request goes, key or not
        return _served(os.environ["OPENAI_BASE_URL"], api_key, "OPENAI_BASE_URL")
    for variable, spec in (("OPENAI_API_KEY", OPENAI_MODEL), ("ANTHROPIC_API_KEY", ANTHROPIC_MODEL)):
        if os.environ.get(variable, "").strip():
            return Found(spec=spec, why=variable)
    return None


def _on_this_machine(servers: Sequence[tuple[str, int]] | None = None) -> Found | None:
    """The first local server that has a model; all are asked at once."""
    asked = LOCAL_SERVERS if servers is None else servers

    def look(name: str, port: int) -> Found | None:
        url = f"http://127.0.0.1:{port}/v1"
        model = first_model(url)
        return Found(spec=f"openai:{model}", base_url=url, why=f"{name} on port {port}") if model else None

    if not asked:
        return None
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(look, [name for name, _ in asked], [port for _, port in asked])
        return next((found for found in answers if found is not None), None)


def _served(url: str, api_key: str | None, why: str) -> Found:
    """The first model of a server that was named."""
    try:
        _, key = endpoint("openai", url, api_key)
    except ConfigError as error:
        raise UsageError(f"{why}: {error}\n{WAYS}") from error
    model = first_model(url, key, ASK_SECONDS)
    if model is None:
        raise UsageError(
            f"{why}: {url!r} lists no model; name one with --model openai:NAME or TOOLNEXUS_MODEL"
        )
    return Found(spec=f"openai:{model}", base_url=url, api_key=api_key, why=why)


def _with_key(found: Found) -> Found:
    provider, _ = split_spec(found.spec)
    try:
        endpoint(provider, found.base_url, found.api_key)
    except ConfigError as error:
        raise UsageError(f"model {found.spec!r} ({found.why}): {error}\n{WAYS}") from error
    return found


def first_model(url: str, key: str | None = None, seconds: float = PROBE_SECONDS) -> str | None:
    """The first chat model that an OpenAI-style server lists; None when it does not answer so."""
    parts = urlsplit(url)
    connect: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
    if parts.scheme == "https":
        connect = http.client.HTTPSConnection
    connection = connect(parts.hostname or "", parts.port, timeout=seconds)
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers=headers)
        reply = connection.getresponse()
        if reply.status != 200:
            return None
        listed: Any = json.loads(reply.read(_LARGEST_LIST))["data"]
        names = [str(entry["id"]) for entry in listed]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return None
    finally:
        connection.close()
    return next((n for n in names if n and not any(word in n.lower() for word in _NO_CHAT)), None)
