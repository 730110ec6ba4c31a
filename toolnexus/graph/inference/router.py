"""Several models in a row, each asked with what it alone understands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.errors import ConfigError, ErrorKind
from toolnexus.graph.errors import GraphRunError, classified
from toolnexus.graph.inference.targets import Target
from toolnexus.models.base import Model
from toolnexus.models.sink import WatchedSink

T = TypeVar("T")

_FINAL = (ErrorKind.INTERRUPTED, ErrorKind.ABORTED, ErrorKind.BUDGET_EXCEEDED)


@dataclass(slots=True, kw_only=True)
class Trace:
    """Who was asked: the attempts in order, the last one answered unless everybody failed."""

    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answered: Target | None = None

    def failed(self, target: Target, error: Exception) -> None:
        """Note that `target` could not answer."""
        kind = ErrorKind.VALIDATION
        if not isinstance(error, ConfigError):
            kind = classified(error, graph="", node_id="").kind
        self.attempts.append(
            {"model": target.ref, "outcome": "failed", "kind": str(kind), "error": str(error)}
        )

    def succeeded(self, target: Target) -> None:
        """Note that `target` answered."""
        self.answered = target
        self.attempts.append({"model": target.ref, "outcome": "succeeded"})

    def to_wire(self) -> dict[str, Any]:
        """`{selected, attempts}` as JSON values."""
        selected = None if self.answered is None else self.answered.ref
        return {"selected": selected, "attempts": self.attempts}


def goes_on(error: Exception) -> bool:
    """Whether another model may be asked after `error`."""
    return not (isinstance(error, GraphRunError) and error.kind in _FINAL)


async def first_answer(
    targets: Sequence[Target], ask: Callable[[Target], Awaitable[T]], trace: Trace
) -> tuple[T, Target]:
    """What the first target gives that can, and which one that was. Raises what the last one raised."""
    reasons: list[str] = []
    for target in targets:
        try:
            answer = await ask(target)
        except Exception as error:
            trace.failed(target, error)
            reasons.append(str(error))
            if target is targets[-1] or not goes_on(error):
                exhausted(error, reasons)
                raise
        else:
            trace.succeeded(target)
            return answer, target
    raise AssertionError("there are targets")


def exhausted(error: Exception, reasons: Sequence[str]) -> None:
    """Tell in the last error why nobody answered."""
    if len(reasons) > 1:
        error.args = (f"no model answered: {'; then '.join(reasons)}", *error.args[1:])


class RoutedModel:
    """Asks its targets in order until one answers, each with its own options.

    The next one is asked after any failure, as long as nothing of the failed reply was handed on.
    """

    def __init__(
        self, targets: Sequence[Target], options: Callable[[Target], Mapping[str, Any]], trace: Trace
    ) -> None:
        self._targets = targets
        self._options = options
        self._trace = trace

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that may answer, in order."""
        return tuple([target.model for target in self._targets])

    @property
    def name(self) -> str:
        """The names in order, joined by `|`."""
        return "|".join([model.name for model in self.models])

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request. Raises the last model's error, its text with the reasons of all."""
        reasons: list[str] = []
        for n, target in enumerate(self._targets, 1):
            sink = None if request.sink is None else WatchedSink(request.sink)
            options = {**(request.options or {}), **self._options(target)}
            asked = replace(request, sink=sink, options=options or None)
            try:
                response = await target.model.generate(asked)
            except Exception as error:
                self._trace.failed(target, error)
                reasons.append(str(error))
                if n == len(self._targets) or (sink is not None and sink.said) or not goes_on(error):
                    exhausted(error, reasons)
                    raise
                request.retry(attempt=1, delay=0.0, error=error)
            else:
                self._trace.succeeded(target)
                if response.model:
                    return response
                return replace(response, model=target.model.name, host=getattr(target.model, "host", None))
        raise AssertionError("a router has targets")

    async def aclose(self) -> None:
        """The models are those of the host, which closes them."""
