"""What goes wrong with a graph: while it is built (`GraphError`), and while it runs (`GraphRunError`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolnexus.core.result import Limit
from toolnexus.errors import (
    ConfigError,
    ErrorKind,
    LimitReached,
    ModelConnectionError,
    ModelContextError,
    ModelError,
    ModelHTTPError,
    RunError,
)
from toolnexus.runtime.snapshot import Waiting

if TYPE_CHECKING:
    from toolnexus.graph.board import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One thing that is wrong with a definition.

    `path` is where it stands (`nodes[2].config.model`), `line` the line of the file, from 1, where known.
    """

    message: str
    path: str = ""
    kind: ErrorKind = ErrorKind.VALIDATION
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path}{': ' if self.path else ''}{self.message}"


class GraphError(ConfigError):
    """A graph cannot be built. `issues` is everything that is wrong at the stage that found it."""

    def __init__(self, name: str, issues: Sequence[Issue]) -> None:
        listed = "".join([f"\n  - {issue}" for issue in issues])
        super().__init__(f"{f'graph {name!r}' if name else 'the graph'} cannot be built:{listed}")
        self.issues = tuple(issues)
        self.kind = next((i.kind for i in issues if i.kind is not ErrorKind.VALIDATION), ErrorKind.VALIDATION)
        if any(issue.kind is ErrorKind.VALIDATION for issue in issues):
            self.kind = ErrorKind.VALIDATION
        self.http_status = self.kind.http_status


class GraphRunError(RunError):
    """A graph, or one of its nodes, failed. Raise it in a node to say of which `kind` a failure is.

    `node_id` is the node that failed, `board` the state that the run ended in, `retry_after` the wait in
    seconds that somebody asked for. Raises `ValueError` for an unknown kind.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind | str = ErrorKind.INTERNAL,
        node_id: str | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = ErrorKind(kind)
        self.node_id = node_id
        self.retry_after = retry_after
        self.code = code
        """What exactly, where the kind does not say enough: `undefined_tool`, or the provider's own word."""
        self.request_id = ""
        """What the provider calls the request that failed."""
        self.retry_count = 0
        """How often that request went out again."""
        self.board: Board | None = None

    @property
    def http_status(self) -> int:
        """The HTTP status that says the same."""
        return self.kind.http_status


class BudgetExceeded(GraphRunError):
    """The guard of iterations, the width of a wave, or a budget of the host."""

    def __init__(
        self,
        message: str,
        *,
        node_id: str | None = None,
        limit: Limit | tuple[str, int | None] = ("budget", None),
    ) -> None:
        super().__init__(message, kind=ErrorKind.BUDGET_EXCEEDED, node_id=node_id)
        self.limit = limit
        """The limit that was met, or its name and its value."""


class Interrupted(GraphRunError):
    """Somebody stopped the run where it can go on.

    `cause` is `user_cancel`, `user_input`, `host_shutdown` or `custom`, `detail` a free text.
    """

    def __init__(
        self, cause: str = "custom", detail: str = "", *, waiting: Mapping[str, Waiting] | None = None
    ) -> None:
        told = f" ({detail})" if detail else ""
        super().__init__(f"interrupted: {cause}{told}", kind=ErrorKind.INTERRUPTED)
        self.cause = cause
        self.detail = detail
        self.waiting: Mapping[str, Waiting] = waiting or {}
        """What waits for answers, by the id of the call or the place of the run."""


class RunEndPublishError(GraphRunError):
    """The last event of a run could not be published. `run_error` is what the run itself ended with."""

    def __init__(self, message: str, run_error: BaseException | None = None) -> None:
        also = f"; the run itself failed: {run_error}" if run_error is not None else ""
        super().__init__(f"{message}{also}")
        self.run_error = run_error


def kind_of_status(status: int) -> ErrorKind:
    """The kind of a provider's HTTP status."""
    if status in (401, 403):
        return ErrorKind.UNAUTHORIZED
    if status == 402:
        return ErrorKind.FORBIDDEN
    if status == 429:
        return ErrorKind.RATE_LIMIT
    if status in (400, 404, 405, 413, 422):
        return ErrorKind.VALIDATION
    return ErrorKind.NOT_AVAILABLE


def classified(error: BaseException, *, graph: str, node_id: str) -> GraphRunError:
    """`error` of a node as one with a kind; what has one already keeps it. The cause stays attached.

    `node_id` is empty when it was no node that failed."""
    if isinstance(error, GraphRunError):
        if error.node_id is None:
            error.node_id = node_id
        return error
    retry_after = None
    text = str(error) or type(error).__name__
    if isinstance(error, LimitReached):
        kind = ErrorKind.BUDGET_EXCEEDED
    elif isinstance(error, ModelContextError):
        kind = ErrorKind.VALIDATION
    elif isinstance(error, ModelHTTPError):
        kind, retry_after = kind_of_status(error.status), error.retry_after
    elif isinstance(error, (ModelConnectionError, ModelError)):
        kind = ErrorKind.NOT_AVAILABLE
    elif isinstance(error, TimeoutError):
        kind = ErrorKind.TIMEOUT
    elif isinstance(error, asyncio.CancelledError):
        kind, text = ErrorKind.ABORTED, "it was cancelled from inside"
    else:
        where = f"graph {graph!r}, node {node_id!r}" if node_id else f"graph {graph!r}"
        kind, text = ErrorKind.INTERNAL, f"{where}: {text}"
    made = GraphRunError(text, kind=kind, node_id=node_id, retry_after=retry_after)
    if isinstance(error, ModelError):
        made.retry_count = error.retries
    if isinstance(error, ModelHTTPError):
        made.code, made.request_id = error.code or None, error.request_id
    made.__cause__ = error
    return made
