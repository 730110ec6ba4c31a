"""The shape of a deployment document, read strictly, with everything that is wrong at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from toolnexus.core.files import read_text, reason
from toolnexus.core.formats import READERS
from toolnexus.core.names import did_you_mean
from toolnexus.core.plain import Plain, kind_of, path_text
from toolnexus.errors import ConfigError
from toolnexus.graph.definition import MOST_BYTES, lines_of, parsed, placed
from toolnexus.graph.durations import DOCUMENT, Duration
from toolnexus.graph.errors import GraphError, Issue

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
LATER = {
    "sessions": "sessions are the conversations of a client here: Client(store=…), with its limits",
    "dynamic_catalog": "agents come from the document alone; deploy another one to change them",
    "artifact_channels": "the result of a run is its last message and its transcript, not several channels",
    "observe": "events reach whoever streams the run, and subscribers of the event bus",
}
"""Keys that documents of other programs may have, and what there is instead."""

_WORDS = {
    "missing": "it is missing",
    "model_type": "it must be a table",
    "dict_type": "it must be a table",
    "list_type": "it must be a list",
    "string_type": "it must be a text",
    "bool_type": "it must be true or false",
    "int_type": "it must be a whole number",
}
"""What pydantic says in the words of Python."""


class DeployError(GraphError):
    """A deployment cannot be built. `issues` has everything that is wrong, with its path and line."""

    def __init__(self, where: str, issues: list[Issue]) -> None:
        super().__init__("", issues)
        self.args = ("".join([f"{where} cannot be deployed:", *[f"\n  - {issue}" for issue in self.issues]]),)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _table(value: Any) -> Any:
    return {} if value is None else value


Table = Annotated[dict[str, Any], BeforeValidator(_table)]
Refs = Annotated[dict[str, str], BeforeValidator(_table)]


class ResourceEntry(_Strict):
    """One resource: what it is, what it takes from others, and its settings."""

    kind: str = Field(min_length=1)
    impl: str = Field(min_length=1)
    deps: Refs = Field(default_factory=dict[str, str])
    settings: Table = Field(default_factory=dict[str, Any])


class Card(_Strict):
    """How others see an agent."""

    name: str = ""
    description: str = ""


class HookEntry(_Strict):
    """A function of the host, by the impl that it is registered as."""

    type: str = Field(min_length=1)
    deps: Refs = Field(default_factory=dict[str, str])
    settings: Table = Field(default_factory=dict[str, Any])


class Policy(_Strict):
    """Bounds of one run of an agent."""

    max_revise: Annotated[int, Field(ge=0)] = 0
    run_timeout: Annotated[Duration, Field(ge=0, strict=False)] = 0.0


class AgentEntry(_Strict):
    """One agent."""

    card: Card = Card()
    tools: list[str] | None = None
    engine: ResourceEntry
    policy: Policy = Policy()
    prepare: list[HookEntry] = Field(default_factory=list[HookEntry])
    referees: list[HookEntry] = Field(default_factory=list[HookEntry])
    commit: list[HookEntry] = Field(default_factory=list[HookEntry])


class RuntimeEntry(_Strict):
    """What all agents share."""

    event_bus: str = Field(min_length=1)
    checkpoint_store: str | None = Field(default=None, min_length=1)


class Shape(_Strict):
    version: Literal["v1"] = "v1"
    resources: dict[str, ResourceEntry] = Field(default_factory=dict[str, ResourceEntry])
    agents: dict[str, AgentEntry] = Field(min_length=1)
    runtime: RuntimeEntry | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document with the right shape; kinds, references and settings are for the plan."""

    where: str
    folder: Path | None
    shape: Shape
    lines: Mapping[str, int]

    def error(self, issues: list[Issue]) -> DeployError:
        """What is wrong, with lines, in their order."""
        return DeployError(self.where, placed(issues, self.lines))


def read(source: str | Path | Mapping[str, Any], folder: str | Path | None) -> Document:
    """The document of a file or of plain data. Raises `DeployError`."""
    text: str | None = None
    if isinstance(source, Mapping):
        where, data = "the deployment", cast("object", source)
    else:
        path = Path(source).expanduser()
        where, folder = str(source), path.absolute().parent if folder is None else folder
        try:
            text = read_text(path, MOST_BYTES)
            data = (READERS[path.suffix.lower()] if path.suffix.lower() == ".toml" else parsed)(text)
        except OSError as error:
            raise DeployError(where, [Issue(message=f"it cannot be read: {reason(error)}")]) from None
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            raise DeployError(
                where, [Issue(message="it is nested too deeply" if deep else str(error))]
            ) from None
    lines = {} if text is None or str(source).endswith(".toml") else lines_of(text)
    base = None if folder is None else Path(folder).absolute()
    if not isinstance(data, Mapping):
        raise DeployError(where, [Issue(message=f"it is {kind_of(data)}, not a table with agents")])
    try:
        plain = Plain(cast("object", data))
    except ConfigError as error:
        raise DeployError(where, [Issue(message=str(error))]) from None
    issues: list[Issue] = []
    for finding in plain.findings:
        at, _, message = finding.partition(": ")
        issues.append(Issue(message=message or at, path=at if message else ""))
    shape: Shape | None = None
    try:
        shape = Shape.model_validate(plain.data, context={DOCUMENT: True})
    except ValidationError as error:
        issues += _issues_of(error, Shape, plain.data)
    if shape is not None:
        issues += _misnamed(shape)
    if issues or shape is None:
        raise DeployError(where, placed(issues, lines))
    return Document(where, base, shape, lines)


def settings_issues(
    error: ValidationError, model: type[BaseModel], given: Mapping[str, Any], prefix: str
) -> list[Issue]:
    """What is wrong with settings, at their place in the document."""
    return _issues_of(error, model, given, prefix)


def _issues_of(
    error: ValidationError, model: type[BaseModel], given: Mapping[str, Any], prefix: str = ""
) -> list[Issue]:
    out: list[Issue] = []
    for found in error.errors(include_url=False, include_input=False):
        loc = _written(tuple(found["loc"]), given) if found["type"] != "missing" else tuple(found["loc"])
        path = path_text(loc)
        message = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            key = str(loc[-1])
            allowed = _fields_at(model, loc[:-1])
            if key in LATER and not prefix:
                message = f"{key!r} is not supported: {LATER[key]}"
            else:
                message = f"unknown key {key!r}{did_you_mean(key, allowed)}; allowed: {', '.join(allowed)}"
        else:
            message = _WORDS.get(found["type"], message)
        out.append(Issue(message=message, path=f"{prefix}{'.' if prefix and path else ''}{path}"))
    return out


def _written(loc: tuple[int | str, ...], given: Any) -> tuple[int | str, ...]:
    """The part of a place that stands in the document: behind it are the ways that were tried to read it."""
    for n, step in enumerate(loc):
        try:
            given = given[step]
        except (KeyError, TypeError):
            return loc[:n]
    return loc


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed at a place below `model`."""
    at: Any = model
    for step in loc:
        if isinstance(at, type) and issubclass(at, BaseModel):
            fields: Any = at.model_fields
            at = _model_in(fields[step].annotation) if step in fields else at  # else the key of a table
    if not (isinstance(at, type) and issubclass(at, BaseModel)):
        return []
    return [field.alias or name for name, field in at.model_fields.items()]


def _model_in(annotation: Any) -> Any:
    """The model that an annotation such as `dict[str, Model]` or `Model | None` is about."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        if (found := _model_in(inner)) is not None:
            return found
    return None


def _misnamed(shape: Shape) -> list[Issue]:
    out: list[Issue] = []
    for part, names in (("resources", shape.resources), ("agents", shape.agents)):
        for name in names:
            if not NAME.fullmatch(name):
                path = path_text((part, name))
                out.append(Issue(message="a name has letters, digits, '_' and '-', at most 64", path=path))
    return out
