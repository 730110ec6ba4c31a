"""Every exception that the package raises on purpose.

ToolnexusError                 .result: what the run achieved before it failed, or None
├── ConfigError(ValueError)      a definition is wrong: raised while building
│   ├── NameConflict               two agents, or two tools given by hand, with one name
│   ├── UnknownNames               .names: tools, skills or agents that do not exist
│   └── VariableError              .place, .key, .why: a value with a variable that cannot be filled in
│       └── UnsetVariable            the environment has no such variable
├── ToolError                    raise it in a tool: the model sees a failed result
├── ModelError                   .retryable
│   ├── ModelHTTPError             .status, .retry_after
│   │   └── ModelContextError        .window
│   ├── ModelConnectionError
│   └── ModelResponseError
├── SourceError                  .source: one MCP server, one document
├── StoreError
│   └── StoreConflict              .version: what the store holds by now
└── RunError
    ├── LimitReached               .limit, .value, .scope
    ├── OutputError                .problems
    └── Suspended                  .requests

Those of graphs (`toolnexus.graph`) are a `ConfigError` and a `RunError` with an `ErrorKind`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class ErrorKind(StrEnum):
    """What class of failure an error of a graph is."""

    NOT_FOUND = "not_found"
    VALIDATION = "validation"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    POLICY_DENIED = "policy_denied"
    CONFLICT = "conflict"
    RATE_LIMIT = "rate_limit"
    BUDGET_EXCEEDED = "budget_exceeded"
    TIMEOUT = "timeout"
    NOT_AVAILABLE = "not_available"
    INTERNAL = "internal"
    INTERRUPTED = "interrupted"
    ABORTED = "aborted"

    @property
    def http_status(self) -> int:
        """The HTTP status that says the same."""
        return _STATUS[self]


_STATUS = {
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.VALIDATION: 400,
    ErrorKind.UNAUTHORIZED: 401,
    ErrorKind.FORBIDDEN: 403,
    ErrorKind.POLICY_DENIED: 403,
    ErrorKind.CONFLICT: 409,
    ErrorKind.RATE_LIMIT: 429,
    ErrorKind.BUDGET_EXCEEDED: 429,
    ErrorKind.TIMEOUT: 504,
    ErrorKind.NOT_AVAILABLE: 503,
    ErrorKind.INTERNAL: 500,
    ErrorKind.INTERRUPTED: 409,
    ErrorKind.ABORTED: 409,
}


class ToolnexusError(Exception):
    """Base of all: `except ToolnexusError` catches everything that we raise on purpose."""

    result: Any = None
    """The `RunResult` of the failed run (transcript, usage so far), set by the root frame."""


class ConfigError(ToolnexusError, ValueError):
    """A definition is wrong. Raised while building, at the earliest moment, never mid-run."""


class NameConflict(ConfigError):
    """Two things that must have different names have the same one."""


class UnknownNames(ConfigError):
    """A filter or a list names what does not exist. `names` are all such names."""

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


class VariableError(ConfigError):
    """A value holds a variable that cannot be filled in.

    `place` is what the value belongs to, `key` where it stands there, `why` the rest of the sentence.
    """

    def __init__(self, place: str, key: str, why: str) -> None:
        super().__init__(f"{place}: {key!r} {why}")
        self.place = place
        self.key = key
        self.why = why


class UnsetVariable(VariableError):
    """The environment lacks a variable: no mistake of whoever wrote the value."""


class ToolError(ToolnexusError):
    """Raise it in a tool: the model sees the text as a failed result and can react to it."""


class ModelError(ToolnexusError):
    """A model request failed for good."""

    retryable: bool = False
    """Whether the same request may succeed later."""
    retries: int = 0
    """How often the request went out again."""
    usage: Any = None
    """The `Usage` of a request that failed on its way, as far as the endpoint had told it, or None."""


class ModelHTTPError(ModelError):
    """The endpoint answered with an error status.

    `status` is the HTTP status, `retry_after` the server's hint in seconds, or None; `code` and
    `request_id` are the server's own words for the error and the request, or empty.
    """

    code: str = ""
    request_id: str = ""

    def __init__(
        self, message: str, *, status: int, retry_after: float | None = None, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.retryable = retryable


class ModelContextError(ModelHTTPError):
    """The request was longer than the model can read, and not by a retry.

    `window` is how many tokens it can read, where the endpoint says so, or None.
    """

    def __init__(self, message: str, *, status: int, window: int | None = None) -> None:
        super().__init__(message, status=status)
        self.window = window


class ModelConnectionError(ModelError):
    """The endpoint could not be reached, or the connection broke or fell silent."""

    retryable = True


class ModelResponseError(ModelError):
    """The endpoint answered with something that is no valid reply of its style."""


class SourceError(ToolnexusError):
    """A tool source (an MCP server, a document) failed. `source` is its name."""

    def __init__(self, message: str, *, source: str) -> None:
        super().__init__(message)
        self.source = source


class StoreError(ToolnexusError):
    """A conversation store could not be read or written."""


class StoreConflict(StoreError):
    """Somebody else wrote first. `version` is what the store holds by now: load and try again."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class RunError(ToolnexusError):
    """A run did not finish. `result` holds what it achieved."""


class LimitReached(RunError):
    """A limit stopped a run.

    `limit` is its name (`"requests"`, `"max_turns"`, …), `value` the ceiling, `scope` the path
    of the run that owns it.
    """

    def __init__(self, limit: str, value: float | None, scope: tuple[str, ...]) -> None:
        ceiling = "" if value is None else f" ({value:g})"
        super().__init__(f"limit {limit!r} of run {'/'.join(scope)!r} reached{ceiling}")
        self.limit = limit
        self.value = value
        self.scope = scope


class OutputError(RunError):
    """The final answer of a run is not of its `output_type`, also after one repair.

    `problems` are the reasons, one line for each wrong field.
    """

    def __init__(self, name: str, problems: tuple[str, ...]) -> None:
        listed = "\n- ".join(problems)
        super().__init__(f"the answer does not fit {name!r}, also after one repair:\n- {listed}")
        self.problems = problems


class Suspended(RunError):
    """A run waits for answers, or is being resumed. `requests` are its open questions."""

    def __init__(self, requests: tuple[Any, ...], then: str = "") -> None:
        asked = "; ".join(f"{r.prompt!r} ({r.id})" for r in requests)
        waits = f"the run waits for an answer to {asked}" if asked else "the run is under way"
        super().__init__(f"{waits}{then and '. '}{then}")
        self.requests = requests
