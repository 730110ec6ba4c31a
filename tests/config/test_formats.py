"""Files of three formats, mappings, and what is none of them."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.config.helpers import agent_file, refusal, write
from toolnexus import SqliteStore
from toolnexus.config import Document
from toolnexus.errors import ConfigError

WHOLE: dict[str, Any] = {
    "$schema": "schema.json",
    "model": "openai:gpt-5-mini",
    "base_url": "http://localhost:9/v1",
    "api_key": "${TEST_CONFIG_KEY}",
    "headers": {"X-Team": "tools"},
    "system_prompt": "Be brief.\nAnswer with ${FACTS}.",
    "max_turns": 12,
    "max_sub_agent_depth": 2,
    "max_sub_agents": 0,
    "max_declared_tools": 40,
    "allowed_models": ["openai:gpt-5-mini", "openai:${TEST_CONFIG_NAME:-gpt-5-nano}"],
    "budget": {"requests": 9, "tokens": 1000, "tool_calls": 5, "seconds": 2.5, "concurrency": 3},
    "mcpServers": {"shop": {"command": "python", "args": ["${HOME}/s.py"], "tools": {"order": False}}},
    "skills": {"paths": ["skills"], "filter": ["re*"], "sample_limit": -1},
    "builtins": {"tools": ["read", "web*"], "sandbox": "auto", "webfetch_allow": ["localhost"]},
    "agents": {
        "explore": {
            "description": "Looks.",
            "system_prompt": "Look.",
            "model": "openai:gpt-5-nano",
            "tools": ["read"],
            "agents": ["judge"],
            "max_turns": 3,
            "budget": {"seconds": 60},
            "workdir": "sub",
            "permissions": {"bash": "deny"},
            "output_type": {"type": "object", "properties": {"a": {"enum": ["x", 1]}}},
        },
        "judge": {"tools": {"builtins": {"read": False}, "mcp": False}},
    },
    "agent_files": {"paths": ["agents"], "models": {"haiku": "openai:gpt-5-nano"}},
    "permissions": {"bash(git *)": "allow", "bash": "ask", "mcp_*": "deny"},
    "store": "chat.db",
    "workdir": "sub",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with all that WHOLE names."""
    for folder in ("skills", "sub"):
        (tmp_path / folder).mkdir()
    agent_file(tmp_path / "agents" / "reader.md", "model: haiku\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_CONFIG_KEY", "key-of-the-test")
    return tmp_path


@pytest.mark.parametrize("suffix", [".toml", ".json", ".jsonc", ".yaml", ".yml", ".TOML"])
def test_a_file_of_each_format_and_a_mapping_mean_the_same(project: Path, suffix: str) -> None:
    """[CFG-01] Every key, read from a file and from a mapping, gives equal options."""
    path = write(project, WHOLE, suffix.lower()).rename(project / f"d{suffix}")
    from_file, from_mapping = Document.read(path), Document.read(WHOLE)
    left, right = from_file.options(), from_mapping.options()
    stores = [options.pop("store") for options in (left, right)]
    assert left == right
    assert [store.path for store in stores if isinstance(store, SqliteStore)] == [project / "chat.db"] * 2
    assert (from_file.where, from_mapping.where) == (str(path), "the mapping")
    assert from_file.report == from_mapping.report == ()


def test_json_may_hold_comments_and_trailing_commas(tmp_path: Path) -> None:
    """[CFG-01] As in the files of other hosts; what looks like a comment in a text is text."""
    path = tmp_path / "a.json"
    path.write_text(
        '{ // one\n "system_prompt": "a // b /* c */ ,]", /* two\n */\n "builtins": ["read", // 3\n ],\n}',
        encoding="utf-8-sig",
    )
    assert Document.read(path).options() == {"system_prompt": "a // b /* c */ ,]", "builtins": ["read"]}


def test_yaml_aliases_and_merge_keys_are_followed(tmp_path: Path) -> None:
    """[CFG-04] A merged key gives way to one that is written out."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "agents:\n"
        "  one: &one {description: first, max_turns: 3}\n"
        "  two: {<<: *one, description: second}\n"
        "  three: {<<: [{max_turns: 5}, *one]}\n"
        "  four: *one\n"
    )
    agents = {agent.name: agent for agent in Document.read(path).options()["agents"]}
    assert {n: (a.description, a.max_turns) for n, a in agents.items()} == {
        "one": ("first", 3),
        "two": ("second", 3),
        "three": ("first", 5),
        "four": ("first", 3),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"max_turns": 1, "agents": {"x": {"model": "a", "model": "b"}}, "max_turns": 2}'),
        ("a.yaml", "max_turns: 1\nagents: {x: {model: a, model: b}}\nmax_turns: 2\n"),
    ],
)
def test_a_key_given_twice_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    """[CFG-04] Every such key is named with its path."""
    (tmp_path / name).write_text(text)
    assert refusal(tmp_path / name) == ["max_turns: given twice", "agents.x.model: given twice"]


def test_a_toml_key_given_twice_is_an_error(tmp_path: Path) -> None:
    """[CFG-04] TOML itself has the rule, and says where."""
    (tmp_path / "a.toml").write_text("[agents.x]\nmax_turns = 1\n[agents.x]\n")
    (line,) = refusal(tmp_path / "a.toml")
    assert line.startswith("it does not parse: ") and "line 3" in line


EMPTY = "it is empty; write at least a model, such as 'openai:gpt-5-mini'"


def aliases() -> bytes:
    """A few lines of YAML that stand for 9 to the 12th texts."""
    names = "abcdefghijklm"
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]" for before, name in pairwise(names)]
    return "\n".join(lines).encode()


def merges() -> bytes:
    """The same with merge keys."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{i}: &a{i}\n  <<: [{','.join([f'*a{i - 1}'] * 9)}]\n  k{i}: 1" for i in range(1, 30)]
    return "\n".join(lines).encode()


BAD: dict[str, tuple[str, bytes, str]] = {
    "no text": ("a.toml", b"", EMPTY),
    "only a remark": ("a.yaml", b"# later\n", EMPTY),
    "an empty table": ("a.json", b"{}", EMPTY),
    "no JSON": ("a.json", b"", "it does not parse: Expecting value: line 1 column 1"),
    "null": ("a.json", b"null", EMPTY),
    "a list": ("a.yaml", b"- a\n", "it must hold a table of keys at the top, not a list"),
    "a text": ("a.json", b'"a"', "it must hold a table of keys at the top, not text"),
    "broken TOML": ("a.toml", b"model =", "it does not parse: Invalid value (at end of document)"),
    "broken YAML": ("a.yaml", b"api_key: hush-hush\n  b: :", "it does not parse: line 2, column 4"),
    "two YAML documents": ("a.yaml", b"a: b\n---\nc: d", "it does not parse: line 2"),
    "a YAML object": ("a.yaml", b"model: !!python/object/apply:os.abort []", "it does not parse: line 1"),
    "a YAML set": ("a.yaml", b"agents: !!set {a, b}", "it does not parse: line 1: the tag"),
    "a YAML date": ("a.yaml", b"model: 2026-01-31", "model: a date cannot stand in a document"),
    "a TOML time": ("a.toml", b"model = 10:30:00", "model: a time cannot stand in a document"),
    "a YAML key of another type": ("a.yaml", b"agents: {no: {}}", "agents: the key false is true or false"),
    "a YAML key that is a list": ("a.yaml", b"? [a]\n: b", "it does not parse: line 1: a key must be text"),
    "a merge of no table": ("a.yaml", b"agents: {x: {<<: 5}}", "it does not parse: line 1: '<<' takes"),
    "NaN": ("a.json", b'{"budget": {"seconds": NaN}}', "it does not parse: NaN is not a JSON value"),
    "infinity": ("a.toml", b"budget.seconds = inf", "budget.seconds: it must be a finite number"),
    "a number of 5,000 digits": ("a.json", b'{"a": ' + b"9" * 5000 + b"}", "it does not parse: Exceeds"),
    "a NUL in TOML": ("a.toml", b'model = "a\0"', "it does not parse: "),
    "a NUL in JSON": ("a.json", b'{"model": "a\\u0000"}', "model: holds a NUL character"),
    "a NUL in a key": ("a.json", b'{"a\\u0000": 1}', '"a\\u0000": its key holds a NUL character'),
    "half a pair": ("a.json", b'{"model": "\\ud800"}', "model: holds half of a surrogate pair"),
    "no UTF-8": ("a.toml", b"model = '\xfc'", "it cannot be read: it is not UTF-8 at byte 9"),
    "UTF-16": ("a.json", '{"model": "x"}'.encode("utf-16"), "it cannot be read: it is not UTF-8 at byte 0"),
    "50 MB": ("a.toml", b"#" * 50_000_000, "it cannot be read: it is larger than 1,048,576 bytes"),
    "deep JSON": ("a.json", b"[" * 500_000, "it does not parse: it is nested too deeply"),
    "deep TOML": ("a.toml", b"a = " + b"[" * 500_000, "it does not parse: it is nested too deeply"),
    "deep YAML": ("a.yaml", b"[" * 500_000, "it does not parse: line 1"),
    "rather deep": ("a.json", b'{"a": ' + b"[" * 80 + b"]" * 80 + b"}", "a[0][0]: tables and lists"),
    "an alias of itself": ("a.yaml", b"a: &a [*a]", "it does not parse: it is nested too deeply"),
    "a merge of itself": ("a.yaml", b"a: &a {<<: *a}", "it does not parse: "),
    "aliases without end": ("a.yaml", aliases(), "it does not parse: its aliases stand for"),
    "merges without end": ("a.yaml", merges(), "it does not parse: its aliases stand for"),
    "very many values": ("a.json", b'{"a": [' + b"1," * 110_000 + b"1]}", "it holds more than 100,000"),
    "comments without end": ("a.json", b"/*" * 400_000, "it does not parse: "),
    "quotes without end": ("a.json", b'\\"' * 400_000, "it does not parse: "),
    "an unknown suffix": ("a.conf", b"", "'.conf' tells no format; allowed are .toml, .json"),
    "no suffix": ("config", b"", "'config' tells no format; allowed are .toml, .json"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(tmp_path: Path, case: str) -> None:
    """[CFG-05] Whatever a file holds, it is refused with a line that says why, soon and in little memory."""
    name, data, text = BAD[case]
    path = tmp_path / name
    path.write_bytes(data)
    line = refusal(path)[0]
    assert line.startswith(text)
    assert "hush-hush" not in line and len(line) < 400


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """[CFG-05] A missing file, a folder, a pipe (which would never end) and an impossible name."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    assert refusal(tmp_path / "no.toml") == ["it cannot be read: No such file or directory"]
    assert refusal(tmp_path / "pipe.toml") == ["it cannot be read: it is no regular file"]
    assert refusal(tmp_path / "folder.toml") == ["it cannot be read: Is a directory"]
    with pytest.raises(ConfigError, match="it cannot be read"):
        Document.read("a\0b.toml")
    nothing: Any = 5
    with pytest.raises(ConfigError, match="the path of a file or a mapping, not a whole number"):
        Document.read(nothing)


def test_a_mapping_is_held_to_the_same_bounds() -> None:
    """[CFG-05] One that holds itself, and values that no document can hold."""
    endless: dict[str, Any] = {}
    endless["agents"] = endless
    assert refusal(endless)[0].startswith("agents.agents.agents: tables and lists are nested more than 60")
    assert refusal({}) == [EMPTY]
    assert refusal({"model": object(), 5: "x"})[:2] == [
        "model: an object cannot stand in a document; put it in quotes if it is meant as text",
        "the key 5 is a whole number; put it in quotes",
    ]


def test_a_mapping_may_hold_paths_and_tuples_and_is_not_kept(tmp_path: Path) -> None:
    """[CFG-01] What Python has in place of texts and lists; a later change of it changes nothing."""
    agents = [{"name": "a"}]
    source: dict[str, Any] = {"workdir": tmp_path, "builtins": ("read",), "agents": agents}
    document = Document.read(source)
    agents.append({"name": "b"})
    options = document.options()
    assert (options["workdir"], options["builtins"]) == (tmp_path, ["read"])
    assert [agent.name for agent in options["agents"]] == ["a"]
