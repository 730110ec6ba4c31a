"""The document of a graph: what may stand in it, read strictly, with everything that is wrong at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from toolnexus.core.files import read_text, reason
from toolnexus.core.formats import from_json, from_yaml
from toolnexus.core.names import did_you_mean
from toolnexus.core.plain import Plain, path_text
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphError, Issue

END = "__end__"
"""The target of an edge at which a path ends."""
MOST_BYTES = 1 << 20
_LAST_STEP = re.compile(r"""(\.?"(\\.|[^"\\])*"|\.?[^."\[\]]+|\[\d+\])$""")
"""The last step of a path that `path_text` wrote."""
_DEPLOYMENT = (
    "this is a deployment document, no graph: graph.deploy(…) reads it, `toolnexus serve --config` serves "
    "its agents: docs/graph-deploy.md"
)
_PLAIN_WORDS = {
    "extra_forbidden": "unknown field",
    "string_type": "it must be text",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NodeDef(_Strict):
    """One node. `config` is read by its type, when it runs."""

    id: str = ""
    type: str = ""
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    skip_condition: str = ""
    """An expression over the variables; when true, the node is not run but its edges are followed."""


class EdgeDef(_Strict):
    """A way from one node to another, or to `__end__`."""

    from_: str = Field(default="", alias="from")
    to: str = ""
    condition: str = ""
    """An expression over the variables and `__iterations`; empty: always."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a definition was read from, which is no part of what it says."""

    folder: Path | None = None
    text: str | None = field(default=None, compare=False)


class GraphDefinition(_Strict):
    """A graph as it was written down: plain data, checked for its structure when it is built.

    Read one with `from_file`, `from_text` or `from_data`, or make one; each raises `GraphError` with every
    issue of the fields, and all but the last those of the structure.
    """

    name: str = ""
    version: str = ""
    entry: str = ""
    nodes: tuple[NodeDef, ...] = Field(default=(), strict=False)
    edges: tuple[EdgeDef, ...] = Field(default=(), strict=False)
    _origin: _Origin = PrivateAttr(default=_Origin())

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            issues = [_with_near(issue) for issue in issues_of(error)]
            raise GraphError(str(fields.get("name", "")), issues) from None

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> GraphDefinition:
        """As `from_data`; what is a definition already stays one."""
        return obj if isinstance(obj, cls) else cls.from_data(obj)

    @classmethod
    def from_file(cls, path: str | Path) -> GraphDefinition:
        """The graph of a JSON or YAML file of at most 1 MiB; what it names as files lies beside it."""
        file = Path(path)
        try:
            text = read_text(file, MOST_BYTES)
        except OSError as error:
            raise GraphError("", [Issue(message=f"{file}: it cannot be read: {reason(error)}")]) from None
        return cls.from_text(text, folder=file.absolute().parent)

    @classmethod
    def from_text(cls, text: str, *, folder: str | Path | None = None) -> GraphDefinition:
        """The graph of a text: JSON when it begins with `{`, YAML otherwise.

        `folder` is what relative paths in it are relative to, and may not leave; None: there are no files.
        """
        if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise GraphError("", [Issue(message="the document is larger than 1 MiB")])
        try:
            data = parsed(text)
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            at = re.match(r"line (\d+)(?:, column \d+)?: |(?=.*\bline (\d+) column)", why)
            line = int(at[1] or at[2]) if at is not None else None
            raise GraphError("", [Issue(message=why[at.end() if at else 0 :], line=line)]) from None
        return cls.from_data(data, folder=folder, text=text)

    @classmethod
    def from_data(
        cls, data: object, *, folder: str | Path | None = None, text: str | None = None
    ) -> GraphDefinition:
        """The graph of plain data. `text` is what the data was read from: for the lines of errors."""
        issues: list[Issue] = []
        if not isinstance(data, Mapping):
            raise GraphError("", [Issue(message="a graph is a table with name, entry, nodes and edges")])
        if "nodes" not in data and "agents" in data:
            raise GraphError("", [Issue(message=_DEPLOYMENT)])
        try:
            plain = Plain(cast("object", data))
        except ConfigError as error:
            raise GraphError("", [Issue(message=str(error))]) from None
        for finding in plain.findings:
            where, _, message = finding.partition(": ")
            issues.append(Issue(message=message or where, path=where if message else ""))
        made: GraphDefinition | None = None
        try:
            made = cls(**plain.data)
            made._origin = _Origin(None if folder is None else Path(folder).absolute(), text)
            issues += validate(made)
        except GraphError as error:
            issues += error.issues
        if issues or made is None:
            name = cast("Mapping[str, Any]", data).get("name")
            raise GraphError(name if isinstance(name, str) else "", placed(issues, lines_of(text)))
        return made

    @property
    def folder(self) -> Path | None:
        """What relative paths are relative to, None when there are no files."""
        return self._origin.folder

    @property
    def lines(self) -> Mapping[str, int]:
        """The line of everything in the text that it was read from, by its path; empty without a text."""
        return lines_of(self._origin.text)

    @property
    def spec_version(self) -> str:
        """What checkpoints are stamped with: the version, or the name when there is none."""
        return self.version or self.name


def digest_of(data: Any) -> str:
    """A short digest of JSON data."""
    return sha256(dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def parsed(text: str) -> Any:
    """The data of a JSON or YAML text. Raises `ValueError`."""
    return from_json(text) if text.lstrip()[:1] == "{" else from_yaml(text)


def validate(definition: GraphDefinition | Mapping[str, Any]) -> list[Issue]:
    """Everything that is wrong with the structure of a definition, or with the plain data of one.

    Types and conditions are for `build`.
    """
    if not isinstance(definition, GraphDefinition):
        try:
            definition = GraphDefinition.from_data(definition)
        except GraphError as error:
            return list(error.issues)
    ids = dict.fromkeys([node.id for node in definition.nodes])
    there = ", ".join(ids)
    issues: list[Issue] = []

    def wrong(path: str, message: str) -> None:
        issues.append(Issue(message=message, path=path))

    if not definition.name:
        wrong("name", "a graph needs a name")
    if not definition.nodes:
        wrong("nodes", "a graph needs at least one node")
    if not definition.entry:
        wrong("entry", "a graph needs an entry, the id of its first node")
    elif definition.entry not in ids:
        wrong("entry", f"{definition.entry!r} is no node; nodes: {there}")
    issues += _wrong_nodes(definition.nodes)
    for n, edge in enumerate(definition.edges):
        if edge.from_ not in ids:
            wrong(f"edges[{n}].from", f"{edge.from_!r} is no node; nodes: {there}")
        if edge.to not in ids and edge.to != END:
            wrong(f"edges[{n}].to", f"{edge.to!r} is neither a node nor {END!r}; nodes: {there}")
    return issues


def _wrong_nodes(nodes: Sequence[NodeDef]) -> Iterator[Issue]:
    counts = Counter(node.id for node in nodes)
    for n, node in enumerate(nodes):
        if not node.id:
            yield Issue(message="a node needs an id", path=f"nodes[{n}].id")
        elif node.id.startswith("__"):
            message = f"{node.id!r} begins with '__', which names of the engine do"
            yield Issue(message=message, path=f"nodes[{n}].id")
        elif counts[node.id] > 1:
            counts[node.id] = 0
            yield Issue(message=f"several nodes have the id {node.id!r}", path=f"nodes[{n}].id")
        if not node.type:
            yield Issue(message=f"node {node.id!r} needs a type", path=f"nodes[{n}].type")


def _with_near(issue: Issue) -> Issue:
    """An unknown field with those that it may be meant to be."""
    if issue.message != _PLAIN_WORDS["extra_forbidden"]:
        return issue
    within, _, key = issue.path.rpartition(".")
    model = {"nodes": NodeDef, "edges": EdgeDef}.get(within.partition("[")[0], GraphDefinition)
    allowed = [field.alias or name for name, field in model.model_fields.items()]
    known = ", ".join(allowed)
    return replace(issue, message=f"{issue.message}{did_you_mean(key, allowed)}; allowed: {known}")


def issues_of(error: ValidationError, prefix: str = "") -> list[Issue]:
    """What pydantic found, in plain words."""
    out: list[Issue] = []
    for found in error.errors(include_url=False, include_input=False):
        path = path_text(tuple(found["loc"]))
        message = _PLAIN_WORDS.get(found["type"]) or found["msg"].removeprefix("Value error, ")
        out.append(Issue(message=message, path=f"{prefix}{'.' if prefix and path else ''}{path}"))
    return out


def placed(issues: Iterable[Issue], lines: Mapping[str, int]) -> list[Issue]:
    """The issues with the line of the nearest key that stands in the text, in the order of the lines."""
    out: list[Issue] = []
    for issue in issues:
        line, path = issue.line, issue.path
        while line is None and path:
            line = lines.get(path)
            shorter = _LAST_STEP.sub("", path)
            path = shorter if shorter != path else ""
        out.append(Issue(message=issue.message, path=issue.path, kind=issue.kind, line=line or lines.get("")))
    return sorted(out, key=lambda issue: issue.line or 0)


def lines_of(text: str | None) -> dict[str, int]:
    """The line of everything in a JSON or YAML text, by its path (`nodes[0].id`)."""
    if text is None:
        return {}
    import yaml
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    out: dict[str, int] = {"": 1}
    seen: set[int] = set()

    def note(node: Any, path: tuple[str | int, ...]) -> None:
        if len(path) > 100:
            return
        out.setdefault(path_text(path), node.start_mark.line + 1)
        if id(node) in seen:  # an alias: what is in it stands where its anchor is
            return
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for key, value in cast("Sequence[tuple[Any, Any]]", node.value):
                if isinstance(key, ScalarNode):
                    out.setdefault(path_text((*path, str(key.value))), key.start_mark.line + 1)
                    note(value, (*path, str(key.value)))
        elif isinstance(node, SequenceNode):
            for n, item in enumerate(cast("Sequence[Any]", node.value)):
                note(item, (*path, n))

    try:
        root = yaml.compose(text.replace("\t", " "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return out
    if root is not None:
        note(root, ())
    return out
