"""Several models in a row: the next answers when one cannot."""

from __future__ import annotations

from dataclasses import replace

from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.errors import ConfigError, ModelError, ModelHTTPError
from toolnexus.models.base import Model
from toolnexus.models.registry import checked_model
from toolnexus.models.sink import WatchedSink

_OUR_FAULT = frozenset((400, 413, 422))


class FallbackModel:
    """Asks its models in order until one answers; `ModelResponse.model` says which.

    The next one is asked after any `ModelError` but a refusal of the request itself (status 400, 413
    or 422), as long as nothing of the failed reply was handed on. Each model makes its own retries
    first.
    """

    def __init__(self, *models: Model) -> None:
        if not models:
            raise ConfigError("a fallback model needs at least one model")
        self._models = tuple([checked_model(model) for model in models])

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that may answer, in order."""
        return self._models

    @property
    def name(self) -> str:
        """The names in order, joined by `|`."""
        return "|".join([model.name for model in self._models])

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of all."""
        found: list[str] = []
        for model in self._models:
            found += getattr(model, "secrets", ())
        return tuple(found)

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request. Raises the last model's error, its text with the reasons of all."""
        reasons: list[str] = []
        while True:
            model = self._models[len(reasons)]
            sink = None if request.sink is None else WatchedSink(request.sink)
            try:
                response = await model.generate(request if sink is None else replace(request, sink=sink))
            except ModelError as error:
                reasons.append(str(error))
                final = len(reasons) == len(self._models) or (sink is not None and sink.said)
                if final or (isinstance(error, ModelHTTPError) and error.status in _OUR_FAULT):
                    if len(reasons) > 1:
                        error.args = (f"no model answered: {'; then '.join(reasons)}",)
                    raise
                request.retry(attempt=1, delay=0.0, error=error)
            else:
                if response.model:
                    return response
                return replace(response, model=model.name, host=getattr(model, "host", None))

    async def aclose(self) -> None:
        """Close every model, also when one of them fails to."""
        failures: list[Exception] = []
        for model in self._models:
            try:
                await model.aclose()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(m) for m in self._models)})"
