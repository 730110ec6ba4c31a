"""What tests of programs with agents need: scripted models, records of runs, a scripted endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolnexus.models.records.recording import RecordingModel
from toolnexus.models.records.replaying import ReplayingModel, ReplayMismatch
from toolnexus.testing.scripted import USAGE, ScriptedModel, ScriptedReply, call, reply

if TYPE_CHECKING:
    from toolnexus.testing.endpoint import ScriptedEndpoint as ScriptedEndpoint
    from toolnexus.testing.endpoint import Seen as Seen
    from toolnexus.testing.turns import Turn as Turn

__all__ = [
    "USAGE",
    "RecordingModel",
    "ReplayMismatch",
    "ReplayingModel",
    "ScriptedEndpoint",
    "ScriptedModel",
    "ScriptedReply",
    "Seen",
    "Turn",
    "call",
    "reply",
]

_SERVER = {"ScriptedEndpoint": "endpoint", "Seen": "endpoint", "Turn": "turns"}


def __getattr__(name: str) -> Any:
    """The server's names at first use: it loads aiohttp."""
    if name not in _SERVER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_SERVER[name]}"), name)
