"""What the agents of this folder are, and what arrives at them; loads nothing of the SDK."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82"
)
VARIANTS = ("v1", "rest", "old", "oldrest", "poll", "oldpoll")
"""1.0 JSON-RPC, 1.0 REST, 0.3 JSON-RPC, 0.3 REST, and the first and third without streams."""
LIMIT = 20


@dataclass
class Seen:
    """What arrived, and what tests tell the agent; the agent runs in another thread."""

    headers: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    """Path and headers of every request."""
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Every message that reached an agent, as JSON, with the metadata of its request."""
    started: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    """Lets the agent go on that waits."""
    finished: threading.Event = field(default_factory=threading.Event)
    stubborn: threading.Event = field(default_factory=threading.Event)
    """Makes cancelling take for ever."""

    def clear(self) -> None:
        self.headers.clear()
        self.messages.clear()
        for event in (self.started, self.cancelled, self.release, self.finished, self.stubborn):
            event.clear()

    def of(self, path: str) -> list[dict[str, str]]:
        """The headers of the requests below a path."""
        return [headers for at, headers in self.headers if at.startswith(path)]
