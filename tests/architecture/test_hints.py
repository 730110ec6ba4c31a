"""What frameworks read of signatures can be read, though types are loaded when they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, get_type_hints

import toolnexus
import toolnexus.graph.expr
import toolnexus.testing

MODULES: list[Any] = [
    toolnexus,
    toolnexus.graph,
    toolnexus.graph.expr,
    toolnexus.workflow,
    toolnexus.testing,
]
INTERNAL = {
    "Client": {"Instructions", "Prices"},
    "NodeContext.__init__": {"Branch", "BuiltNode", "Execution"},
    "OpenAIMedia.embed": {"EmbeddingRequest", "Embeddings"},
    "OpenAIMedia.generate_images": {"ImageRequest", "MediaReply"},
    "OpenAIMedia.speak": {"MediaReply", "SpeechRequest"},
    "OpenAIMedia.transcribe": {"Transcript", "TranscriptionRequest"},
    "Outcome": {"Waiting"},
    "Outcome.__init__": {"Waiting"},
    "Overview.instructions": {"Instructions"},
    "RemoteAgent.found": {"Found"},
    "RunContext.__init__": {"Run"},
    "Stream.__init__": {"Outbox"},
    "ToolContext.workdir": {"Path"},
}
"""Where a type stands that has no name in a public package and that a client which does not need it does
not load."""

WRAPPED = "__func__", "fget", "func"
"""Where static and class methods, properties and cached ones hold their function."""


def told(public: Any) -> Iterator[Any]:
    """A public name and what can be called of it."""
    if isinstance(public, FunctionType):
        yield public
    if not inspect.isclass(public):
        return
    yield public
    for base in public.__mro__:
        for name, member in vars(base).items():
            held = next((getattr(member, way) for way in WRAPPED if hasattr(member, way)), member)
            if isinstance(held, FunctionType) and (name == "__init__" or not name.startswith("_")):
                yield held


def unknown(of: Any) -> set[str]:
    """The names in its annotations that cannot be found."""
    given: dict[str, Any] = {}
    while True:
        try:
            get_type_hints(of, localns=given or None)
        except NameError as error:
            name = str(error.name)
            assert name not in given
            given[name] = object
        else:
            return set(given)


def test_annotations_of_public_names_can_be_read() -> None:
    """[ARCH-08] By `typing.get_type_hints`, of classes, functions and methods; the exceptions are exact."""
    every = {each for module in MODULES for name in module.__all__ for each in told(getattr(module, name))}
    ours = [each for each in every if each.__module__.startswith("toolnexus.")]
    assert {each.__qualname__: names for each in ours if (names := unknown(each))} == INTERNAL


def test_public_packages_are_there_at_first_use() -> None:
    """[ARCH-08] `toolnexus.graph` and `toolnexus.workflow`, which annotations name, without an import."""
    program = (
        "import toolnexus; print(toolnexus.workflow.Scratchpad.__name__, toolnexus.graph.Graph.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Scratchpad", "Graph"]
