"""How a graph is run: budgets, retries, parallel waves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolnexus.graph.definition import issues_of
from toolnexus.graph.durations import Duration
from toolnexus.graph.errors import GraphError

MergeFn = Callable[..., Awaitable[None]]
"""`async (board, pre, results)`: writes to `board`, which stands where the wave began, what the branches
gave; `pre` is that state, `results` a list of `BranchResult` in wave order."""

_Count = Annotated[int, Field(ge=0, strict=True)]
_Time = Annotated[Duration, Field(ge=0)]


class _Checked(type(BaseModel)):
    """A call of a class fails as everything else does that a graph cannot be built of. `model_validate` of
    data, which may be a part of something larger, does not come by here."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **given: Any) -> Any:
            try:
                return super().__call__(*args, **given)
            except ValidationError as error:
                raise GraphError("", issues_of(error)) from None


class _Options(BaseModel, metaclass=_Checked):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ParallelOptions(_Options):
    """Waves of several nodes at once. Raises `GraphError` (validation) for what makes no sense."""

    enabled: bool = Field(default=False, strict=True)
    branch_timeout: _Time = 0.0
    """Seconds that one branch may take; 0: no limit. One that takes longer fails the wave."""
    max_concurrency: _Count = 0
    """How many branches run at once; 0: all."""
    max_branches: _Count = 0
    """How many nodes a wave may have; 0: any number. A wider one fails before any of it runs."""
    merge_strategy: Literal["first_write_wins", "last_write_wins"] | Callable[..., Any] = "first_write_wins"
    """Which branch wins a variable that several wrote, in wave order; in code also a `MergeFn`."""
    on_error: Literal["wait", "cancel_siblings"] = "wait"
    """Whether the other branches of a failed wave run to their end or are cancelled."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            enabled: bool = False,
            branch_timeout: float | str = 0.0,
            max_concurrency: int = 0,
            max_branches: int = 0,
            merge_strategy: Literal["first_write_wins", "last_write_wins"] | MergeFn = "first_write_wins",
            on_error: Literal["wait", "cancel_siblings"] = "wait",
        ) -> None: ...


class BuildOptions(_Options):
    """The limits of one run of a graph. Raises `GraphError` (validation) for what makes no sense."""

    max_iterations: _Count = 100
    """How many nodes may be routed; 0: any number."""
    timeout: _Time = 0.0
    """Seconds that one run may take; 0: no limit."""
    run_end_publish_timeout: Annotated[Duration, Field(gt=0)] = 5.0
    """Seconds that the last event has to go out."""
    max_node_retries: _Count = 0
    """How often a node is tried again after its first failure."""
    retry_backoff: _Time = 0.5
    """Seconds before the first retry; before the n-th it is n times as long."""
    checkpoint: Literal["best_effort", "required"] = "best_effort"
    """Whether a checkpoint that cannot be saved is only logged, or fails the run."""
    parallel: ParallelOptions = ParallelOptions()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            max_iterations: int = 100,
            timeout: float | str = 0.0,
            run_end_publish_timeout: float | str = 5.0,
            max_node_retries: int = 0,
            retry_backoff: float | str = 0.5,
            checkpoint: Literal["best_effort", "required"] = "best_effort",
            parallel: ParallelOptions = ...,
        ) -> None: ...


class BranchResult:
    """How one branch of a wave ended: what a `MergeFn` gets.

    `snapshot` is the board that it left, None when there is none: it was skipped (no `error` then), it was
    `cancelled`, or it failed.
    """

    __slots__ = ("cancelled", "error", "node_id", "reason", "snapshot")

    def __init__(
        self,
        node_id: str,
        snapshot: Any = None,
        error: BaseException | None = None,
        *,
        cancelled: bool = False,
        reason: str = "",
    ) -> None:
        self.node_id = node_id
        self.snapshot = snapshot
        self.error = error
        self.cancelled = cancelled
        self.reason = reason

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled else self.error or ("skipped" if not self.snapshot else "ok")
        return f"BranchResult({self.node_id!r}, {state})"
