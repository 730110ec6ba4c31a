"""One ask as an operator sees it: its spans as a tree, and what the client has counted.

What to look at: nothing here hands spans on. A host that sets a tracer provider gets the tree, and a plain
function in a thread is below the call that runs it.
"""

import asyncio
import os
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from script import scripted

from toolnexus import Agent, Client, tool

memory = InMemorySpanExporter()  # in a program of yours: an OTLP exporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)


@tool
def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    with trace.get_tracer("scales").start_as_current_span(f"scales {parcel}"):
        return {"red": "7 kg", "blue": "4 kg"}.get(parcel, "no such parcel")


weigher = Agent(name="weigher", description="Weighs one parcel.", tools=[weigh])


def show(spans: Sequence[ReadableSpan], above: int | None = None, margin: str = "") -> None:
    """Print what is below the span with the id `above`, in the order of the starts."""
    below = [span for span in spans if (span.parent.span_id if span.parent else None) == above]
    for span in sorted(below, key=lambda span: span.start_time or 0):
        print(margin + span.name)
        show(spans, span.context.span_id if span.context else None, margin + "  ")


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, builtins=False, agents=[weigher]) as client:
        result = await client.ask("Which parcel is heavier, red or blue? One weigher each, both at once.")
        print(result.text)
        spans = memory.get_finished_spans()
        show(spans)
        used = 0
        for span in spans:
            for kind in ("input_tokens", "output_tokens"):
                tokens = (span.attributes or {}).get(f"gen_ai.usage.{kind}", 0)
                used += tokens if isinstance(tokens, int) else 0
        print(f"tokens on spans: {used}, used: {result.usage.total_tokens}")
        print(*[line for line in client.metrics().splitlines() if "_total{" in line], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
