"""The real SDK with spans kept in memory, as a host sets it up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Traced:
    """What was exported so far, as a tree."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def above(self, span: ReadableSpan) -> ReadableSpan | None:
        """Its parent, which must have been exported too."""
        if span.parent is None:
            return None
        (found,) = [s for s in self.all if s.context and s.context.span_id == span.parent.span_id]
        return found

    def way(self, span: ReadableSpan) -> list[str]:
        """The names from the root to `span`."""
        above = self.above(span)
        return [*(self.way(above) if above is not None else ()), span.name]

    def tree(self) -> list[str]:
        """Every span with the names above it, sorted."""
        return sorted(" > ".join(self.way(span)) for span in self.all)

    def __str__(self) -> str:
        """All that an exporter would send."""
        return "\n".join(span.to_json() for span in self.all)


class Switch(SpanProcessor):
    """Where the spans of the one provider go just now."""

    def __init__(self) -> None:
        self.to: tuple[SpanProcessor, ...] = ()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        for processor in self.to:
            processor.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        for processor in self.to:
            processor.on_end(span)


_switch = Switch()
_provider = TracerProvider(shutdown_on_exit=False)
_provider.add_span_processor(_switch)


@contextmanager
def tracing(*processors: SpanProcessor) -> Generator[Traced]:
    """The host traces, inside. A process has one provider for ever, which libraries keep: so has ours."""
    exporter = InMemorySpanExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", _provider)
        patch.setattr(_switch, "to", (*processors, SimpleSpanProcessor(exporter)))
        yield Traced(exporter)


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})
