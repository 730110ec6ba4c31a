"""What is written about documents is true: the schema, the template, the page, the example."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomli

from tests.config.helpers import agent_file
from tests.config.test_findings import SAID
from tests.config.test_formats import WHOLE
from toolnexus.config import Document, json_schema, template
from toolnexus.errors import ConfigError
from toolnexus.tools import mcp_config, mcp_entry

ROOT = Path(__file__).parents[2]
SCHEMA = json_schema()
PAGE = (ROOT / "docs" / "config.md").read_text("utf-8")
BEYOND_SHAPE = (
    *("a model without provider", "a misspelt provider", "an address that is none", "a header of two lines"),
    *("a path that is too long", "a home of nobody"),
    *("a key without an endpoint", "a key beside a model table", "a host that is an address", "a blank path"),
    *("no variable", "a variable of an editor", "a variable in a default", "both kinds of servers"),
)


def tables() -> dict[str, dict[str, Any]]:
    """The tables of the schema with their properties."""
    found = {"": SCHEMA, **SCHEMA["$defs"]}
    servers = SCHEMA["properties"]["mcpServers"]["anyOf"][0]["additionalProperties"]
    return {name: table["properties"] for name, table in {**found, "server": servers}.items()}


def keys(table: dict[str, Any]) -> list[str]:
    """Its keys without their other spellings."""
    return [
        key for key, value in table.items() if not str(value.get("$ref", "")).rpartition("/properties/")[1]
    ]


def valid(document: Any) -> bool:
    validator: Any = jsonschema.Draft202012Validator(SCHEMA)
    return validator.is_valid(document)


def project(folder: Path) -> Path:
    """A folder with what the template and the page name."""
    for name in ("skills", "agents", ".claude/agents", "src"):
        (folder / name).mkdir(parents=True)
    (folder / "shop.yaml").write_text(
        '{"openapi": "3.1.0", "paths": {"/": {"get": {"operationId": "orders"}}}}'
    )
    agent_file(folder / "agents" / "reader.md", "model: sonnet\n")
    agent_file(folder / ".claude" / "agents" / "reader.md", "model: sonnet\n")
    return folder


def test_the_schema_in_the_package_is_that_of_the_code() -> None:
    """[CFG-50] To write it anew: json.dumps(json_schema(), indent=2, ensure_ascii=False) and a line end."""
    committed = (ROOT / "toolnexus" / "config" / "schema.json").read_text("utf-8")
    assert committed == json.dumps(SCHEMA, indent=2, ensure_ascii=False) + "\n"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_of_a_server_is_what_its_reader_knows() -> None:
    """[CFG-50] Every key, each kind of server, and the bounds of the timeout."""
    server = tables()["server"]
    assert sorted(server) == sorted(mcp_entry._KEYS)

    def reads(**entry: Any) -> bool:
        try:
            mcp_config.read_mcp_config({"mcpServers": {"a": entry}})
        except ConfigError:
            return False
        return True

    for kind in (*server["type"]["enum"], "htp", ""):
        entry: dict[str, Any] = {"type": kind, "command": "x", "url": "http://x"}
        assert reads(**entry) is valid({"mcpServers": {"a": entry}}), kind
    for timeout in (0, -1, 0.5, 86_400_000, 86_400_001):
        entry = {"command": "x", "timeout": timeout}
        assert reads(**entry) is valid({"mcpServers": {"a": entry}}), timeout
    for protocol in (*server["protocol"]["enum"], "both"):
        entry = {"command": "x", "protocol": protocol}
        assert reads(**entry) is valid({"mcpServers": {"a": entry}}), protocol


def test_the_schema_says_what_each_key_means() -> None:
    """[CFG-50] Editors show it; a camelCase key points to its twin."""
    for table in tables().values():
        for key, value in table.items():
            assert value["description"], key
    assert tables()[""]["maxTurns"] == {
        "$ref": "#/properties/max_turns",
        "description": "The same as `max_turns`.",
    }


def test_the_schema_accepts_what_loads() -> None:
    """[CFG-50] Every key, both spellings, null, and the file of another host."""
    documents: list[dict[str, Any]] = [
        WHOLE,
        {"maxTurns": 1, "agents": [{"name": "a", "systemPrompt": "x"}]},
        {"max_turns": None, "budget": {"tokens": None}},
        {
            "mcpServers": {
                "a": {"command": "x", "alwaysAllow": []},
                "b": {"url": "http://x", "enabled": False},
            }
        },
        {"mcp": {"servers": {}}, "builtins": {"sandbox": True}, "skills": "x"},
        tomli.loads(template()),
    ]
    for document in documents:
        assert valid(document)
        assert valid(json.loads(json.dumps(document)))


@pytest.mark.parametrize("case", SAID)
def test_the_schema_refuses_what_does_not_load(case: str) -> None:
    """[CFG-50] All but what needs more than the shape."""
    assert valid(SAID[case][0]) is (case in BEYOND_SHAPE)


@pytest.mark.parametrize(
    "document",
    [
        {"maxTurns": 1, "max_turns": 1},
        {"agents": {"a": {"maxTurns": 1, "max_turns": 1}}},
        {"agents": {"a": {"url": "http://x", "tools": []}}},
        {"permissions": ["bash"]},
        {"permissions": {"ba sh": "ask"}},
        {"agents": {"a": {"permissions": {"bash": "maybe"}}}},
        {"mcpServers": {"a": {"command": 5}}},
        {"mcpServers": {"a": {"command": "x", "timeout": 0}}},
        [],
    ],
)
def test_the_schema_refuses_what_is_not_meant(document: Any) -> None:
    """[CFG-50] Two spellings at once, keys of later versions, odd servers, no table."""
    assert not valid(document)


# ---- the template


def uncommented() -> str:
    return re.sub(r"^#(?=\S)", "", template(), flags=re.MULTILINE)


def test_the_template_loads_as_it_is(tmp_path: Path) -> None:
    """[CFG-51] It needs nothing around it."""
    path = tmp_path / "toolnexus.toml"
    path.write_text(template(), encoding="utf-8")
    document = Document.read(path)
    assert document.report == ()
    assert set(document.options()) == {"model", "builtins", "agents"}


def test_the_template_loads_with_everything_uncommented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CFG-51] All keys and tables at once make a client."""
    monkeypatch.setenv("ISSUES_TOKEN", "token")
    monkeypatch.setenv("SHOP_KEY", "key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    path = project(tmp_path) / "toolnexus.toml"
    path.write_text(uncommented(), encoding="utf-8")
    document = Document.read(path)
    document.client().close()
    assert document.report == ()


def test_the_template_loads_with_any_part_uncommented(tmp_path: Path) -> None:
    """[CFG-51] A single key of the document or the agent, or one table."""
    path = project(tmp_path) / "toolnexus.toml"
    lines = template().split("\n")
    tables, agent = lines.index("#[budget]"), lines.index("[agents.explore]")
    parts = [[n] for n, line in enumerate(lines) if re.match(r"#\w+ = (?!\"\"\"$)", line)]
    parts = [[n] for [n] in parts if n < tables or n > agent]
    for start in (n for n, line in enumerate(lines) if line.startswith("#[")):
        parts.append([n for n in range(start, lines.index("", start)) if re.match(r"#\S", lines[n])])
    assert len(parts) > 15
    for part in parts:
        text = "\n".join(line[1:] if n in part else line for n, line in enumerate(lines))
        path.write_text(text, encoding="utf-8")
        assert text != template() and Document.read(path).report == ()


def test_the_template_shows_every_key() -> None:
    """[CFG-51] Of a document, a budget and an agent; the rest stands in remarks."""
    text = template()
    shown = uncommented_document()
    assert set(keys(tables()[""])) - set(shown) == {"$schema", "mcp"} and "mcp = " in text
    assert set(keys(tables()["Budget"])) == set(shown["budget"])
    assert set(keys(tables()["Agent"])) == set(shown["agents"]["explore"])
    for table in ("Builtins", "Skills", "AgentFiles"):
        for key in keys(tables()[table]):
            assert f"{key} = " in text


def uncommented_document() -> dict[str, Any]:
    return tomli.loads(uncommented())


# ---- the page and the example


def test_the_page_names_every_key() -> None:
    """[CFG-52] Also those of tables and servers."""
    for table in tables().values():
        for key in keys(table):
            assert f"`{key}`" in PAGE, key


def test_the_complete_example_of_the_page_loads(tmp_path: Path) -> None:
    """[CFG-52] It holds every key of a document, but those that exclude each other."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = project(tmp_path) / "toolnexus.toml"
    path.write_text(text, encoding="utf-8")
    client = Document.read(path).client()
    client.close()
    given = tomli.loads(text)
    assert set(keys(tables()[""])) - set(given) == {"mcp"}
    assert valid(given)


def test_the_document_of_the_example_fits_the_schema() -> None:
    """[CFG-52] As an editor would say."""
    assert valid(tomli.loads((ROOT / "examples" / "config-file" / "toolnexus.toml").read_text("utf-8")))
