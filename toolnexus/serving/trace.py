"""The trace of a caller goes on in the run that it asks for."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager


@contextmanager
def within_trace(headers: Iterable[tuple[bytes, bytes]]) -> Generator[None]:
    """Tasks that are made within belong to the trace that `headers` name, for a host that traces."""
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if "opentelemetry.trace" not in sys.modules or "traceparent" not in given:
        yield
        return
    from opentelemetry import context
    from opentelemetry.propagate import extract

    token = context.attach(extract(given))
    try:
        yield
    finally:
        context.detach(token)
