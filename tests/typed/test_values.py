"""Which values come out of which answers."""

from __future__ import annotations

import asyncio
import datetime
import enum
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_serializer, field_validator

import toolnexus
from tests.typed.forms import PATIENCE, Finding, Point, Tree, asked, last_user
from toolnexus import Agent, Client, ConfigError, Outcome, OutputError, RunContext
from toolnexus.testing import ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.anyio


class Row(TypedDict):
    """A row of a table."""

    name: str
    size: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mail(BaseModel):
    """Names that Python has no words for."""

    sender: str = Field(alias="from")
    at: datetime.date


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


EITHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {
            "anyOf": [
                {"type": "object", "properties": {"b": {"type": "string"}}},
                {"type": "object", "properties": {"b": {"type": "integer"}}},
            ]
        }
    },
}
"""Both of its forms refuse the same null."""


class Numbers(RootModel[list[int]]):
    """A list with a name."""


Shape = Annotated[Circle | Square, Field(discriminator="kind")]
RISK = {"type": "object", "properties": {"risk": {"type": "integer", "maximum": 9}}, "required": ["risk"]}


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Finding, '{"risk": 3, "files": ["a.py"]}', Finding(risk=3, files=["a.py"])),
        (Point, '{"x": 1}', Point(1, 7)),
        (Row, '{"name": "a", "size": 2}', {"name": "a", "size": 2}),
        (list[Finding], '[{"risk": 1}]', [Finding(risk=1)]),
        (Finding | Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Shape, '{"kind": "square", "side": 2}', Square(kind="square", side=2)),
        (Literal["yes", "no"], '"no"', "no"),
        (Colour, '"blue"', Colour.BLUE),
        (Mail, '{"from": "ann", "at": "2026-01-02"}', Mail(**{"from": "ann", "at": "2026-01-02"})),  # type: ignore[arg-type]
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Tree, '{"label": "a", "below": [{"label": "b"}]}', Tree(label="a", below=[Tree(label="b")])),
        (Numbers, "[1, 2]", Numbers([1, 2])),
        (int | None, "null", None),
        (bool, "true", True),
        (Annotated[list[int], ["no hash"]], "[1]", [1]),
        (RISK, '{"risk": 3}', {"risk": 3}),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"enum": ["a", 1]}, '"a"', "a"),
        ({"$ref": "#/$defs/r", "$defs": {"r": RISK}}, '{"risk": 3}', {"risk": 3}),
        ({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, "[1]", [1]),
    ],
    ids=str,
)
async def test_an_answer_is_a_value_of_its_type(form: Any, text: str, value: Any) -> None:
    """[TY-02] An instance of the type, or plain JSON for a schema; equal, and of the same class."""
    result, model = await asked(form, text)
    assert (result.output, type(result.output)) == (value, type(value))
    assert result.status == "done" and len(model.requests) == 1


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (list[int], '{"value": [1]}', [1]),
        (Literal["yes", "no"], " yes\n", "yes"),
        (str, "42", "42"),
        (str, "just words", "just words"),
        (int, "It is 7 degrees", None),
        (Numbers, "Here you are: [1, 2]", Numbers([1, 2])),
    ],
)
async def test_what_is_no_object_comes_wrapped_or_bare(form: Any, text: str, value: Any) -> None:
    """[TY-03] The model is shown an object with the member `value`, and may leave it away."""
    if value is None:
        with pytest.raises(OutputError, match="value: expected integer"):
            await asked(form, text, text)
        return
    result, model = await asked(form, text)
    assert result.output == value
    spec = model.requests[0].output
    assert (
        spec is not None and spec.schema["type"] == "object" and list(spec.schema["properties"]) == ["value"]
    )


async def test_every_door_takes_an_output_type() -> None:
    """[TY-01] ask, run, stream, a conversation, an agent's own, and the call's before the agent's."""
    agent = Agent(name="judge", output_type=Finding)
    model = ScriptedModel(['{"risk": 1}'] * 5 + ['{"x": 1}'])
    async with asyncio.timeout(PATIENCE), Client(model=model, builtins=False, agents=[agent]) as client:
        values = [
            (await client.ask("go", output_type=Finding)).output,
            (await client.run("judge", "go")).output,
            (await client.conversation("c").ask("go", output_type=Finding)).output,
        ]
        async with client.stream("go", output_type=Finding) as stream:
            async for _ in stream:
                pass
        values.append(stream.result.output)
        async with client.stream("go", target=agent) as stream:
            async for _ in stream:
                pass
        values.append(stream.result.output)
        assert values == [Finding(risk=1)] * 5
        assert (await client.run(agent, "go", output_type=Point)).output == Point(1)
    result = await toolnexus.run(agent, "go", model=ScriptedModel(['{"x": 2}']), output_type=Point)
    assert result.output == Point(2)


def test_code_without_a_loop_takes_one_too() -> None:
    """[TY-01] ask_sync."""
    with Client(model=ScriptedModel(['{"risk": 1}']), builtins=False) as client:
        assert client.ask_sync("go", output_type=Finding).output == Finding(risk=1)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("Finding", "no type"),
        (Finding(risk=1), "no type"),
        (lambda: 1, "no type"),
        (type("Odd", (), {}), "no JSON Schema"),
        (Callable[[], int], "no JSON Schema"),
        ({}, "no JSON Schema"),
        ({"risk": "integer"}, "no JSON Schema"),
        ({"type": "wrong"}, "broken"),
        ({"type": "object", "properties": {"a": {"type": 3}}}, "broken"),
        ({"type": "object", "properties": {"a": {1, 2}}}, "no JSON Schema"),
    ],
)
async def test_what_says_no_form_is_refused_where_it_is_written(form: Any, words: str) -> None:
    """[TY-04] At the definition of an agent, and before the first request of an ask."""
    with pytest.raises(ConfigError, match=f"agent 'a': output_type: .*{words}"):
        Agent(name="a", output_type=form)
    model = ScriptedModel([])
    async with Client(model=model, builtins=False) as client:
        with pytest.raises(ConfigError, match=f"output_type: .*{words}"):
            await client.ask("go", output_type=form)
    assert model.requests == []


async def test_only_agents_are_asked_for_a_type() -> None:
    """[TY-04] Another Runnable gives what it gives."""

    class Echo:
        name = "echo"
        description = ""

        async def execute(self, input: Any, ctx: RunContext) -> Outcome:
            return Outcome(output=input)

    async with Client(model=ScriptedModel([]), builtins=False) as client:
        with pytest.raises(ConfigError, match="'echo'"):
            await client.run(Echo(), "go", output_type=Finding)
        assert (await client.run(Echo(), "go")).output == "go"


def test_a_run_without_a_type_loads_nothing_for_one() -> None:
    """[TY-05] Neither pydantic nor jsonschema, nor the modules that read answers of a type."""
    program = """
import sys
from toolnexus import Agent, Client, FunctionModel
seen = []
def fn(request):
    seen.append(request.output)
    return "hi"
with Client(model=FunctionModel(fn), builtins=False, agents=[Agent(name="a")]) as client:
    assert client.ask_sync("go").output == "hi"
assert seen == [None]
ours = ["toolnexus.engine.output_types", "toolnexus.engine.output_schema", "toolnexus.models.structured"]
print([m for m in ("pydantic", "jsonschema", *ours) if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    "text",
    [
        '  {"risk": 3}\n',
        '```json\n{"risk": 3}\n```',
        'Here it is:\n```\n{"risk": 3}\n```\nI hope it helps.',
        'At first {"risk": 99}, but then {"risk": 3}.',
        'I saw [1] and {"a": 2}: {"risk": 3} {"b": []}',
        '```json\n{"risk": 77}\n```\nno, rather\n```json\n{"risk": 3}\n```',
        'The set {x | x > 1} is meant. {"risk": 3}',
        '{"risk": 3, "note": "use ``` for code ```"}',
    ],
)
async def test_the_json_is_found_in_what_stands_around_it(text: str) -> None:
    """[TY-06] Whole, in fences, between sentences; of several the last that fits."""
    result, _ = await asked(Finding, text)
    assert result.output.risk == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"inner": {"risk": 3}',
        '{"list": [{"risk": 3}, {"ri',
        'As JSON: [{"risk": 3}, {"risk"',
        '```json\n{"inner": {"risk": 3}\n```',
        '{"risk": 3, "files": [NaN]}',
    ],
)
async def test_what_breaks_off_is_no_answer(text: str) -> None:
    """[TY-06] A part of it that would fit is not taken for the answer."""
    result, model = await asked(Finding, text, '{"risk": 5}')
    assert result.output.risk == 5 and len(model.requests) == 2


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Finding, '{"risk": "3", "files": null, "note": null}', Finding(risk=3)),
        (list[Point], '[{"x": 1, "y": null}]', [Point(1, 7)]),
        (Finding | Point, '{"x": 1, "y": null}', Point(1, 7)),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}},
            '{"a": null, "b": null}',
            {"b": None},
        ),
        (EITHER, '{"a": {"b": null, "c": 1}}', {"a": {"c": 1}}),
    ],
    ids=str,
)
async def test_a_null_that_may_not_be_is_left_out(form: Any, text: str, value: Any) -> None:
    """[TY-07] Then the default holds; strings that are numbers are read as in arguments of tools."""
    result, _ = await asked(form, text)
    assert result.output == value


async def test_a_null_in_a_list_stays_and_is_refused() -> None:
    """[TY-07] Nothing is left out of a list: its places count."""
    form = {"type": "array", "items": {"type": "integer"}}
    result, model = await asked(form, "[1, null]", "[1]")
    assert result.output == [1] and "value[1]: expected integer, got null" in last_user(model)
    result, model = await asked(list[int], "[1, null]", "[2]")
    assert result.output == [2] and "value[1]: expected integer, got null" in last_user(model)


@pytest.mark.parametrize(
    "text",
    [
        '{"risk": 3, "note": "\\ud800"}',
        '{"label": "a", "below": ' + '[{"label": "b", "below": ' * 2000 + "1" + "}]" * 2000 + "}",
        '{"a": ' * 400 + "1" + "}" * 400,
        "[" * 100_000,
        "[1] " * 10_000,
        "{" + " " * 100_000 + "x",
        "```" * 30_000,
        '{"risk": ' + "9" * 5000 + "}",
        "\x00",
    ],
    ids=range(9),
)
async def test_no_text_breaks_the_reading(text: str) -> None:
    """[TY-06] Odd, deep and long ones are answers that do not fit, soon."""
    for form, good in ((Finding, '{"risk": 3}'), (Tree, '{"label": "a"}'), ({"enum": [1]}, "1")):
        async with asyncio.timeout(5):
            result, _ = await asked(form, text, good)
        assert result.status == "done"


async def test_a_null_in_a_duty_and_a_lossy_conversion_are_refused() -> None:
    """[TY-07] Only what may be left out is; 3.5 is no whole number, 1 no flag."""
    with pytest.raises(OutputError, match="risk: expected integer, got null"):
        await asked(Finding, '{"risk": null}', '{"risk": null}')
    with pytest.raises(OutputError, match=r"x: expected integer, got 3\.5"):
        await asked(Point, '{"x": 3.5}', '{"x": 3.5}')
    with pytest.raises(OutputError, match="value: expected boolean, got 1"):
        await asked(bool, "1", "1")


async def test_the_text_is_the_value_as_json() -> None:
    """[TY-08] The model's own where that says the same, else the whole value, under its JSON names."""
    same = '{"risk": 3, "files": [],  "note": null}'
    assert (await asked(Finding, same))[0].text == same
    short, _ = await asked(Finding, 'So: {"risk": 3}')
    assert json.loads(short.text) == {"risk": 3, "files": [], "note": None}
    mail, _ = await asked(Mail, '```\n{"from": "ann", "at": "2026-01-02"}\n```')
    assert json.loads(mail.text) == {"from": "ann", "at": "2026-01-02"}
    assert (await asked(Literal["yes", "no"], "yes"))[0].text == '"yes"'


async def test_a_value_that_json_cannot_say_is_shown_as_python_shows_it() -> None:
    """[TY-08] A part of it, and all of it where the type's own serialiser fails; the value is what it is."""

    class Held(BaseModel):
        n: Any
        good: int = 1

        @field_validator("n")
        @classmethod
        def become(cls, n: Any) -> Any:
            return Colour if n == "colours" else n

    class Broken(BaseModel):
        n: int

        @field_serializer("n")
        def out(self, n: int) -> int:
            raise RuntimeError("unlucky")

    held, _ = await asked(Held, '{"n": "colours"}')
    assert held.output == Held(n="colours") and held.output.n is Colour
    assert json.loads(held.text) == {"n": repr(Colour), "good": 1}
    broken, _ = await asked(Broken, '{"n": 3}')
    assert broken.output == Broken(n=3) and json.loads(broken.text) == "Broken(n=3)"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.1}}},
            f'{{"a": {10**400}}}',
        ),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, '{"a": 1}'),
    ],
    ids=["a number that no float holds", "a reference to itself"],
)
async def test_what_cannot_be_checked_is_told_and_may_be_repaired(form: Any, text: str) -> None:
    """[TY-06] The run does not break; the model may leave out what cannot be."""
    result, model = await asked(form, text, "{}")
    assert result.output == {} and "the answer cannot be checked: " in last_user(model)


async def test_a_schema_may_refer_to_what_is_not_there() -> None:
    """[TY-04] A root like that says nothing, so anything is a value of it; words beside it hold."""
    assert (await asked({"$ref": "#/$defs/gone"}, '{"value": [1]}'))[0].output == [1]
    form = {"$ref": "#/$defs/row", "required": ["b"], "$defs": {"row": {"type": "object", "required": ["a"]}}}
    assert (await asked(form, '{"a": 1}', '{"b": 1}'))[0].output == {"b": 1}


async def test_a_validator_of_the_users_own_is_heard() -> None:
    """[TY-10] Its words go to the model, and any exception of it is a misfit, not a crash."""

    class Even(BaseModel):
        model_config = ConfigDict(extra="forbid")
        n: int

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n == 13:
                raise RuntimeError("unlucky")
            if n % 2:
                raise ValueError("must be even")
            return n

    result, model = await asked(Even, '{"n": 3}', '{"n": 4}')
    assert result.output == Even(n=4) and "n: 3 is refused: Value error, must be even" in last_user(model)
    result, model = await asked(Even, '{"n": 13}', '{"n": 4}')
    assert "unlucky" in last_user(model)
    _, model = await asked(Even, '{"n": 2, "m": 1}', '{"n": 4}')
    assert "m: unknown; allowed: n" in last_user(model)


async def test_an_agent_of_a_document_has_a_json_schema() -> None:
    """[TY-01] [TY-25] Checked when the document is; the way is a key of the model's table."""
    agents = {"judge": {"output_type": RISK}}
    model = {"name": "openai:m", "structured": "prompt"}
    with ScriptedEndpoint(['{"risk": 3}']) as endpoint:
        document = {"model": {**model, "base_url": endpoint.url}, "builtins": False, "agents": agents}
        async with toolnexus.load(document) as client:
            assert (await client.run("judge", "go")).output == {"risk": 3}
        assert "JSON Schema" in str(endpoint.requests[0].body["messages"])
    with pytest.raises(ConfigError, match=r"agents\.judge.*broken"):
        toolnexus.load({"model": "openai:m", "agents": {"judge": {"output_type": {"type": "wrong"}}}})
    with pytest.raises(ConfigError, match=r"model\.structured: 'json'"):
        toolnexus.load({"model": {"name": "openai:m", "structured": "json"}})


async def test_a_form_that_is_wrapped_keeps_its_references() -> None:
    """[TY-03] To its own parts, and to itself: what they say is checked, and the model is shown it."""
    row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "array", "items": {"$ref": "#/$defs/row"}, "$defs": {"row": row}}
    result, model = await asked(form, '[{"n": "x"}]', '[{"n": 1}]')
    assert result.output == [{"n": 1}] and 'n: expected integer, got "x"' in last_user(model)
    spec = model.requests[0].output
    assert spec is not None and spec.schema["properties"]["value"]["items"] == {
        "$ref": "#/properties/value/$defs/row"
    }
    lists = {"type": "array", "items": {"$ref": "#"}}
    result, model = await asked(lists, "[[], 1]", "[[], [[]]]")
    assert result.output == [[], [[]]] and "value[1]: expected array, got 1" in last_user(model)
    named = {"$ref": "#/$defs/row", "$defs": {"row": row}, "title": "Row", "description": "One row."}
    result, model = await asked(named, '{"n": 1.5}', '{"n": 2}')
    assert result.output == {"n": 2} and "n: expected integer, got 1.5" in last_user(model)
    spec = model.requests[0].output
    assert spec is not None and (spec.name, spec.description) == ("Row", "One row.")


async def test_beside_the_value_of_a_wrapped_form_stands_nothing() -> None:
    """[TY-03] Neither of a type nor of a schema."""
    for form in (list[int], {"type": "array", "items": {"type": "integer"}}):
        result, model = await asked(form, '{"value": [1], "more": 2}', '{"value": [3]}')
        assert result.output == [3] and "value: expected array, got " in last_user(model)


async def test_an_empty_answer_is_told_and_a_long_one_by_its_beginning() -> None:
    """[TY-12] What came, in a line, when there is no JSON in it."""
    _, model = await asked(Finding, " \n", '{"risk": 1}')
    assert "- the answer is empty\n" in last_user(model)
    _, model = await asked(Finding, "x" * 80, '{"risk": 1}')
    assert f"- the answer holds no JSON object: '{'x' * 80}'\n" in last_user(model)
    _, model = await asked(Finding, "x" * 81, '{"risk": 1}')
    assert f"- the answer holds no JSON object: '{'x' * 77}...'\n" in last_user(model)
