"""A sink that remembers whether anything was handed on."""

from __future__ import annotations

from toolnexus.core.model import ModelSink


class WatchedSink:
    """Passes everything to `inner`; `said` is true once text or reasoning went through."""

    __slots__ = ("_inner", "said")

    def __init__(self, inner: ModelSink) -> None:
        self._inner = inner
        self.said = False

    def text(self, delta: str) -> None:
        self.said = True
        self._inner.text(delta)

    def reasoning(self, delta: str) -> None:
        self.said = True
        self._inner.reasoning(delta)

    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
        self._inner.retrying(attempt=attempt, delay=delay, reason=reason, restarted=restarted)
