"""What a model is shown of a Python function."""

import asyncio
import dataclasses
import datetime
import enum
import functools
import json
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Optional, Required

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolnexus import Agent, Client
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ToolContext
from toolnexus.testing import ScriptedModel
from toolnexus.tools.function import FunctionTool, tool
from toolnexus.tools.toolkit import Toolkit


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place on the map."""

    x: int
    y: float = 0.0


class Filter(BaseModel):
    title: str
    near: Point | None = None


class Window(TypedDict):
    width: int


def properties(fn: FunctionTool[..., Any]) -> dict[str, Any]:
    return dict(fn.input_schema["properties"])


def test_hints_become_a_closed_object_schema() -> None:
    """[FN-02] Every parameter is a property, those without default are required, nothing else is allowed."""

    @tool
    def draw(
        name: str, count: int, scale: float = 1.5, tags: list[str] | None = None, loose: Any = None
    ) -> None:
        """Draw."""

    assert draw.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "scale": {"type": "number", "default": 1.5},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
            "loose": {"default": None},
        },
        "required": ["name", "count"],
        "additionalProperties": False,
    }


def test_choices_records_and_nested_models_are_described() -> None:
    """[FN-02] Literal, Enum, dataclass, pydantic model, TypedDict and dates have their full schema."""

    @tool
    def draw(
        mode: Literal["fast", 1],
        color: Color,
        point: Point,
        what: Filter,
        window: Window,
        when: datetime.date,
        pair: tuple[int, str],
        color2: Color = Color.RED,
    ) -> None:
        """Draw."""

    schema = draw.input_schema
    shown, forms = schema["properties"], schema["$defs"]
    assert shown["mode"] == {"enum": ["fast", 1]}
    assert shown["color"] == {"$ref": "#/$defs/Color"}
    assert shown["color2"] == {"$ref": "#/$defs/Color", "default": "red"}
    assert forms["Color"]["enum"] == ["red", "blue"]
    assert forms["Point"]["description"] == "A place on the map."
    assert forms["Point"]["properties"] == {"x": {"type": "integer"}, "y": {"default": 0.0, "type": "number"}}
    assert forms["Filter"]["properties"]["near"]["anyOf"] == [{"$ref": "#/$defs/Point"}, {"type": "null"}]
    assert forms["Window"]["required"] == ["width"]
    assert shown["when"] == {"type": "string", "format": "date"}
    assert shown["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]


def test_a_parameter_without_a_hint_takes_any_json_value() -> None:
    """[FN-02] No hint, no limit."""

    scope: dict[str, Any] = {}
    exec("def echo(value, times=2): return value", scope)
    assert properties(tool(scope["echo"])) == {"value": {}, "times": {"default": 2}}


def test_a_default_of_none_allows_null() -> None:
    """[FN-02] `limit: int = None` takes null although the hint forgot to say so; extras stay in place."""

    def find(a: int = None, b: Annotated[int, Field(gt=0)] = None, c: Optional[int] = None) -> None:  # type: ignore # noqa: UP045, RUF013
        """Find."""

    nullable = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    shown = properties(tool(find))
    assert shown["a"] == shown["c"] == nullable
    assert shown["b"]["anyOf"] == [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]


def test_defaults_that_json_cannot_say_are_left_out() -> None:
    """[FN-02] An object or a set as default makes the parameter optional and shows nothing."""

    @tool
    def find(a: Any = object(), b: frozenset[str] = frozenset({"x", "y"}), c: Point = Point(1)) -> None:  # noqa: B008
        """Find."""

    shown = properties(find)
    assert shown["a"] == {}
    assert "default" not in shown["b"]
    assert shown["c"]["default"] == {"x": 1, "y": 0.0}
    assert "required" not in find.input_schema


def test_any_parameter_name_is_allowed() -> None:
    """[FN-02] Names that pydantic keeps for itself are ordinary parameters."""

    @tool
    def odd(json: str, _hidden: int, model_config: int, title: str, schema: int = 1) -> str:
        """Odd."""
        return f"{json}{_hidden}{model_config}{title}{schema}"

    assert list(properties(odd)) == ["json", "_hidden", "model_config", "title", "schema"]
    assert odd.validate is not None
    assert odd.validate({"json": "a", "_hidden": 1, "model_config": 2, "title": "t"}) == {
        "json": "a",
        "_hidden": 1,
        "model_config": 2,
        "title": "t",
    }


GOOGLE = """Find things.

    Slowly, and with care.

    Args:
        q: The term
            to look for.
        limit (int): How many.

    Returns:
        Something.
    """
NUMPY = """Find things.

    Slowly, and with care.

    Parameters
    ----------
    q : str
        The term
        to look for.
    limit : int
        How many.
    """
REST = """Find things.

    Slowly, and with care.

    :param q: The term
        to look for.
    :param int limit: How many.
    :returns: Something.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_docstrings_describe_tool_and_parameters(doc: str) -> None:
    """[FN-03] The description is the text before the sections; parameter texts are found in three styles."""

    def find(q: str, limit: int = 3) -> None: ...

    find.__doc__ = doc
    found = tool(find)
    assert found.description == "Find things.\n\nSlowly, and with care."
    shown = properties(found)
    assert shown["q"]["description"].split() == ["The", "term", "to", "look", "for."]
    assert shown["limit"]["description"] == "How many."


def test_a_text_in_the_hint_wins_over_the_docstring() -> None:
    """[FN-03] `Annotated[int, "…"]` and `Field(description=…)` go before the docstring."""

    @tool
    def find(a: Annotated[int, "own a"], b: Annotated[int, Field(description="own b", le=9)], c: int) -> None:
        """Find.

        Args:
            a: doc a
            b: doc b
            c: doc c
        """

    shown = properties(find)
    assert [shown[name]["description"] for name in "abc"] == ["own a", "own b", "doc c"]
    assert shown["b"]["maximum"] == 9


def test_name_and_description_can_be_given() -> None:
    """[FN-01] Options of the decorator win over what the function says of itself."""

    @tool(name="other", description="Own text.")
    def find(q: str) -> str:
        """Find."""
        return q

    assert (find.name, find.description, find.source) == ("other", "Own text.", "native")
    assert (find.__name__, find.__doc__) == ("find", "Find.")
    again = tool(find)
    assert (again.name, again.description) == ("other", "Own text.")
    assert FunctionTool.from_function(len, name="size", description="Length.").name == "size"


def test_a_context_parameter_is_hidden_whatever_it_is_called() -> None:
    """[FN-05] A parameter of type `ToolContext` is not part of the schema, optional or annotated too."""

    @tool
    def find(
        q: str,
        a: ToolContext,
        b: ToolContext | None = None,
        c: Optional[ToolContext] = None,  # noqa: UP045
        d: Annotated[ToolContext | None, "x"] = None,
    ) -> None:
        """Find."""

    assert list(properties(find)) == ["q"]


def test_what_a_partial_has_filled_in_is_hidden() -> None:
    """[FN-29] Bound arguments of a partial are neither shown nor can a model set them."""

    def fetch(url: str, token: str, retries: int = 2) -> str:
        """Fetch."""
        return f"{url} {token} {retries}"

    bound = tool(functools.partial(fetch, token="secret"))
    assert (bound.name, bound.description) == ("fetch", "Fetch.")
    assert list(properties(bound)) == ["url", "retries"]
    assert "secret" not in json.dumps(dict(bound.input_schema))


def no_names(*values: int) -> None: ...
def no_keys(q: str, **rest: int) -> None: ...
def some() -> Iterator[int]:
    yield 1


def test_what_no_schema_can_say_is_refused_when_decorating() -> None:
    """[FN-06] `*args`, `**kwargs`, generators and things that are no function name themselves at once."""
    with pytest.raises(ConfigError, match=r"'no_names'.*'\*values: int'"):
        tool(no_names)
    with pytest.raises(ConfigError, match=r"'no_keys'.*'\*\*rest: int'"):
        tool(no_keys)
    with pytest.raises(ConfigError, match="'some' yields"):
        tool(some)
    with pytest.raises(ConfigError, match="no readable signature"):
        tool(name="latest")(max)
    with pytest.raises(ConfigError, match="made from a function, not from 'find'"):
        tool("find")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(ConfigError, match="parameter 'q' has no usable type"):
        exec("def find(q: 'list[int'): ...\ntool(find)", {"tool": tool})


@pytest.mark.parametrize("name", ["", "has space", "ünicode", "x" * 65, "a.b"])
def test_a_name_that_models_cannot_use_is_refused(name: str) -> None:
    """[FN-06] A name is 1 to 64 of letters, digits, `_` and `-`; a lambda needs one."""
    with pytest.raises(ConfigError, match="give name="):
        tool(name=name)(len)
    with pytest.raises(ConfigError, match="<lambda>"):
        tool(lambda: None)


class Owner:
    @tool
    def act(self, n: int) -> None:
        """Act."""


def test_a_method_without_its_instance_is_refused() -> None:
    """[FN-29] A decorated method is a tool of an instance, not of the class."""
    with pytest.raises(ConfigError, match="'act' is a method; give the one of an instance"):
        _ = Owner.act.input_schema
    assert list(properties(Owner().act)) == ["n"]


class NoSchema:
    """A class that pydantic knows nothing about."""


def test_a_type_without_a_schema_is_named_with_function_and_parameter() -> None:
    """[FN-08] What has no JSON Schema is a ConfigError where the schema is first needed."""

    @tool
    def find(q: str, odd: NoSchema) -> None:
        """Find."""

    @tool
    def call(q: str, back: Callable[[int], int]) -> None:
        """Call."""

    with pytest.raises(ConfigError, match="function 'find': the type of parameter 'odd' has no JSON Schema"):
        _ = find.input_schema
    with pytest.raises(ConfigError, match="function 'call': the type of parameter 'back' has no JSON Schema"):
        _ = call.input_schema


def test_what_a_type_without_a_schema_should_be_is_told() -> None:
    """[FN-08] The error names the type and says which kinds work, in our words."""

    @tool
    def find(q: str, odd: NoSchema) -> None:
        """Find."""

    with pytest.raises(ConfigError) as caught:
        _ = find.input_schema
    text = str(caught.value)
    assert "NoSchema; types that work: str, int, float, bool, None, list, dict" in text
    assert "arbitrary_types_allowed" not in text
    assert "\n" not in text


class Place(typing.TypedDict):
    """A place."""

    city: str


class Keep(Place, total=False):
    """What to keep."""

    near: Annotated[list[Place] | None, "others"]
    far: Required[dict[str, Place]]


class Loop(typing.TypedDict):
    """A record in a record."""

    inner: "list[Loop]"


@pytest.mark.anyio
async def test_a_typed_dict_of_the_standard_library_is_a_record() -> None:
    """[FN-35] `typing.TypedDict` works on every Python, nested and with keys that may be left out."""
    given: list[Any] = []

    @tool(thread=False)
    def find(which: Keep, more: Optional[Place] = None) -> str:  # noqa: UP045
        given.append(which)
        return "ok"

    kinds = find.input_schema["$defs"]
    assert kinds["Place"]["description"] == "A place."
    assert kinds["Keep"]["description"] == "What to keep."
    assert set(kinds["Keep"]["required"]) == {"city", "far"}
    assert list(kinds["Keep"]["properties"]) == ["city", "near", "far"]
    which: dict[str, Any] = {"city": "x", "near": [{"city": "y"}], "far": {}}
    result = await Toolkit([find]).execute("find", {"which": which})
    assert (result.is_error, result.output) == (False, "ok")
    assert given == [which]
    result = await Toolkit([find]).execute("find", {"which": {"far": {}}})
    assert "which.city: required, but missing" in result.output


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic reads them there")
def test_a_typed_dict_that_holds_itself_names_what_to_use() -> None:
    """[FN-35] Where it cannot be read, the error names `typing_extensions.TypedDict`."""

    @tool
    def find(which: Loop) -> None:
        """Find."""

    with pytest.raises(ConfigError, match=r"'which' .*Loop; .* must be typing_extensions\.TypedDict"):
        _ = find.input_schema


@pytest.mark.anyio
async def test_a_type_without_a_schema_is_found_when_the_client_opens() -> None:
    """[FN-36] Nothing is wrong in the middle of a run that could be known when the client opens."""

    @tool
    def find(odd: NoSchema) -> None:
        """Find."""

    agent = Agent(name="helper", tools=[find])
    model = ScriptedModel([])
    for client in (Client(model=model, tools=[find]), Client(model=model, agents=[agent])):
        async with asyncio.timeout(20):
            with pytest.raises(ConfigError, match="function 'find': the type of parameter 'odd'"):
                async with client:
                    pass
            await client.aclose()


def test_decorating_loads_nothing_and_the_schema_is_built_once(run_python: Callable[..., str]) -> None:
    """[FN-07] pydantic and the docstring parser are loaded at the first look at a schema, not before."""
    program = (
        "import sys\n"
        "from toolnexus.tools.function import tool\n"
        "@tool\n"
        "def find(q: str, n: int = 3) -> str:\n"
        "    'Find.\\n\\nArgs:\\n  q: term'\n"
        "    return q * n\n"
        "heavy = {'pydantic', 'docstring_parser', 'jsonschema', 'mcp', 'openai'}\n"
        "assert find.description == 'Find.' and find('a') == 'aaa'\n"
        "assert not heavy & set(sys.modules)\n"
        "assert find.input_schema is find.input_schema\n"
        "assert {'pydantic', 'docstring_parser'} <= set(sys.modules)\n"
        "assert find.validate({'q': 'x', 'n': '2'}) == {'q': 'x', 'n': 2}\n"
        "assert 'jsonschema' not in sys.modules\n"
    )
    run_python(program)


def test_the_schema_has_the_same_bytes_in_every_process(run_python: Callable[..., str]) -> None:
    """[FN-09] Hash seeds do not reach the schema, so prompt caches hold."""
    program = (
        "import json, enum\n"
        "from typing import Literal\n"
        "from toolnexus.tools.function import tool\n"
        "Color = enum.Enum('Color', {'red': 'r', 'blue': 'b'})\n"
        "@tool\n"
        "def f(a: Color, b: Literal['x', 'y', 1], c: frozenset[str] = frozenset('abcdef'),"
        " d: dict[str, Color] = {}): ...\n"
        "print(json.dumps(f.input_schema))\n"
    )
    assert len({run_python(program, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}) == 1
