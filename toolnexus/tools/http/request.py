"""What the arguments of a call make of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from toolnexus.core.values import frozen


@frozen(kw_only=True)
class HttpRequest:
    """A request without what the host alone gives."""

    method: str
    url: str
    """Absolute, percent-encoded, without a fragment."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """They win over those of the host."""
    body: bytes | None = None
