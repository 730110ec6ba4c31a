"""Where requests go, and which key may go with them.

A key belongs to a host. It is looked up for the host that a request is sent to, so no variable can
make a key reach another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

from toolnexus.errors import ConfigError
from toolnexus.runtime.redact import UNRESERVED

Provider = Literal["openai", "anthropic"]

VENDORS: Mapping[Provider, tuple[str, str]] = {
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
}
"""The variable that names another endpoint of the style, and the vendor's own."""

KEYS: Mapping[str, str] = {
    "api.openai.com": "OPENAI_API_KEY",
    "eu.api.openai.com": "OPENAI_API_KEY",
    "us.api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "api.x.ai": "XAI_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "api.together.ai": "TOGETHER_API_KEY",
    "api.fireworks.ai": "FIREWORKS_API_KEY",
    "api.moonshot.ai": "MOONSHOT_API_KEY",
    "api.moonshot.cn": "MOONSHOT_API_KEY",
    "api.cerebras.ai": "CEREBRAS_API_KEY",
    "api.perplexity.ai": "PERPLEXITY_API_KEY",
    "api.z.ai": "ZAI_API_KEY",
    "api.minimax.io": "MINIMAX_API_KEY",
    "dashscope-intl.aliyuncs.com": "DASHSCOPE_API_KEY",
    "dashscope.aliyuncs.com": "DASHSCOPE_API_KEY",
    "integrate.api.nvidia.com": "NVIDIA_API_KEY",
    "router.huggingface.co": "HF_TOKEN",
}


def endpoint(provider: Provider, base_url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """The base URL and the key for it.

    Without `base_url` the style's variable decides, then the vendor. Without `api_key` the variable
    of a known host gives it; another host gets none. Raises `ConfigError` for a URL that is none, and
    for a known host without a key.
    """
    variable, vendor = VENDORS[provider]
    url = base_url or os.environ.get(variable) or vendor
    host = check_url(url)
    if api_key is not None:
        if not isinstance(api_key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"api_key must be a text, not {type(api_key).__name__}")
        return url, api_key.strip() or None
    wanted = KEYS.get(host)
    if wanted is None:
        return url, None
    if not url.startswith("https:"):
        raise ConfigError(f"base_url={_shown(url)!r} would send the key of {host} unencrypted; use https")
    key = os.environ.get(wanted, "").strip()
    if not key:
        raise ConfigError(
            f"{host} needs a key: set the environment variable {wanted}, or pass api_key=…, "
            f"or point base_url=… to a server that needs none (such as http://localhost:11434)"
        )
    return url, key


def check_url(url: str) -> str:
    """The host of `url`. Raises `ConfigError` unless it is plain http or https."""
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"base_url must be a text, not {type(url).__name__}")
    if plain := _plain(url):
        return plain.partition(":")[0].lower()
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # its text may show a password
        raise ConfigError("base_url is no URL: look at its host and its port") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            f"base_url={_shown(url)!r} must look like 'https://host/path' or 'http://host:port/path'"
        )
    if parts.username or parts.password:
        raise ConfigError(f"base_url for {host} must not hold a user or password; put them into headers=…")
    return host


def place(url: str) -> tuple[str, str]:
    """The host of an address that `check_url` took, with its port when it has one; and its query."""
    if plain := _plain(url):
        return plain, ""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.netloc, parts.query


def _plain(url: str) -> str:
    """Host and port of an http address that is as plain as most are, read without loading urllib (4 ms);
    `""` for all others."""
    scheme, _, rest = url.partition("://")
    at, _, path = rest.partition("/")
    host, colon, port = at.partition(":")
    plain = scheme in ("http", "https") and host and UNRESERVED.issuperset(host + path.replace("/", ""))
    digits = not colon or (len(port) < 6 and port.isascii() and port.isdecimal() and int(port) < 65536)
    return at if plain and digits else ""


def _shown(url: str) -> str:
    """`url` without what may be secret in it: user, password, query."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url, maxsplit=1)[0])
