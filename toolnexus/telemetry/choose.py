"""Who follows an ask: spans when the host traces, log lines when it reads them, mostly nobody."""

from __future__ import annotations

import logging
import sys
from typing import Any

from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.tracing import Tracing

logger = logging.getLogger("toolnexus.telemetry")

_LOGGERS = tuple([logging.getLogger(f"toolnexus.{name}") for name in ("runs", "models", "tools")])


def followers(conversation: str | None, redact: Redactor) -> Tracing | None:
    """What follows one ask, or None."""
    api = sys.modules.get("opentelemetry.trace")  # never imported here: a host that traces has done so
    spans = None if api is None else _spans(api, conversation, redact)
    if not any([logger.isEnabledFor(logging.DEBUG) for logger in _LOGGERS]):
        return spans
    from toolnexus.telemetry.logs import Logs

    if spans is None:
        return Logs()
    from toolnexus.telemetry.both import Both

    return Both(spans, Logs())


def _spans(api: Any, conversation: str | None, redact: Redactor) -> Tracing | None:
    """None without a provider: then every span would be a dummy, and `mcp` alone loads the API too."""
    try:
        provider = api.get_tracer_provider()
        if isinstance(provider, api.ProxyTracerProvider):
            return None
        from toolnexus.telemetry.spans import Spans

        return Spans(provider, conversation, redact)
    except Exception as error:  # the provider is foreign code
        logger.warning("nothing is traced: %s", type(error).__name__)
        return None
