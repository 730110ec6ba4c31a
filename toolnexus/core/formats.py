"""TOML, JSON and YAML, read into plain data. Every error is a `ValueError` of one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolnexus.core.jsonc import plain_json
from toolnexus.core.plain import table_of
from toolnexus.core.strict_json import decode

if TYPE_CHECKING:
    from yaml.nodes import Node


def from_toml(text: str) -> Any:
    """The tables of a TOML text."""
    import tomli

    return tomli.loads(text)


def from_json(text: str) -> Any:
    """The value of a JSON text, in which comments and trailing commas may stand."""
    return decode(plain_json(text), pairs=table_of)


def from_yaml(text: str) -> Any:
    """The value of a YAML text with one document. Aliases and merge keys are followed."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Yaml(loader.construct_object).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ValueError(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    finally:
        loader.dispose()


class _Yaml:
    """Makes data of nodes. A few aliases can stand for billions of values, so it counts."""

    def __init__(self, scalar: Callable[[Node], Any]) -> None:
        self._scalar = scalar
        self._left = 200_000

    def value(self, node: Node) -> Any:
        from yaml.nodes import MappingNode, SequenceNode

        self._left -= 1
        if self._left < 0:
            raise ValueError("its aliases stand for more than 200,000 values")
        if isinstance(node, SequenceNode):
            _expect(node, "seq")
            return [self.value(item) for item in node.value]
        if isinstance(node, MappingNode):
            _expect(node, "map")
            return self._table(node.value)
        return self._scalar(node)

    def _table(self, pairs: list[tuple[Node, Node]]) -> dict[Any, Any]:
        own: list[tuple[Any, Any]] = []
        merged: dict[Any, Any] = {}
        for key_node, node in pairs:
            if key_node.tag == "tag:yaml.org,2002:merge":
                given: Any = self.value(node)
                tables = cast("list[Any]", given if isinstance(given, list) else [given])
                for table in tables:
                    if not isinstance(table, Mapping):
                        raise ValueError(
                            f"line {node.start_mark.line + 1}: '<<' takes a table or a list of tables"
                        )
                    merged = {**table, **merged}
                continue
            key = self.value(key_node)
            if isinstance(key, (list, dict)):
                raise ValueError(f"line {key_node.start_mark.line + 1}: a key must be text")
            own.append((key, self.value(node)))
        table = table_of(own)
        for key, value in merged.items():
            table.setdefault(key, value)
        return table


def _expect(node: Node, kind: str) -> None:
    if node.tag != f"tag:yaml.org,2002:{kind}":
        raise ValueError(f"line {node.start_mark.line + 1}: the tag {node.tag!r} is not allowed")


READERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": from_toml,
    ".json": from_json,
    ".jsonc": from_json,
    ".yaml": from_yaml,
    ".yml": from_yaml,
}
"""By the end of a file's name."""
