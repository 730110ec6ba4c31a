"""The rows of conformance/graph/expr.json."""

import json
from pathlib import Path
from typing import Any

from toolnexus.graph.expr import Condition, ExprEvalError, ExprSyntaxError, compile_value

DATA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "conformance/graph/expr.json").read_text())
TOPICS: dict[str, dict[str, Any]] = {f"{g['topic']} ({g['board']})": g for g in DATA["groups"]}


def outcome(row: dict[str, Any], board: dict[str, Any]) -> dict[str, Any]:
    """What a row comes to: `gives` a value, or `fails` at a stage."""
    try:
        run = Condition(row["condition"]) if "condition" in row else compile_value(row["value"])
    except ExprSyntaxError:
        return {"fails": "compile"}
    try:
        return {"gives": run(board)}
    except ExprEvalError:
        return {"fails": "run"}


def typed(value: Any) -> Any:
    """The value with its types, so that 1, 1.0 and true differ."""
    if isinstance(value, list):
        return [typed(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return (type(value).__name__, value)  # pyright: ignore[reportUnknownArgumentType]
