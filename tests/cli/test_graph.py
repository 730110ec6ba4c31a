"""`toolnexus graph`."""

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.helpers import ROOT, Terminal, cli
from tests.warm import Warm
from toolnexus.graph import json_schema
from toolnexus.testing import ScriptedEndpoint

TYPES = """
from pydantic import BaseModel
from toolnexus import graph

class Words(BaseModel):
    model_config = {"extra": "forbid"}
    say: str = ""
    fail_unless: str = ""

registry = graph.Registry()

@registry.node_type("say", config=Words)
async def say(ctx, board, config):
    if config.fail_unless and not board.get(config.fail_unless):
        raise graph.GraphRunError("it may not", kind="policy_denied")
    board.append_var("said", config.say or ctx.node_id)
    if config.say:
        board.append("", graph.Message.from_wire(
            {"role": "assistant", "content": {"parts": [{"type": "text", "text": config.say}]}}))

@registry.node_type("ask")
async def ask(ctx, board, config):
    answer = await ctx.ask_user({"parts": [{"type": "text", "text": "Which colour?"}]})
    board["colour"] = answer["parts"][0]["text"]

number = 7
"""
LINE = """
name: line
entry: one
nodes:
  - {id: one, type: say}
  - {id: two, type: say, config: {say: "Good day, ${board:who:nobody}.", fail_unless: "${board:needs:}"}}
edges:
  - {from: one, to: two}
  - {from: two, to: __end__}
"""
CHECKED = """
name: checked
entry: one
nodes:
  - id: one
    type: say
    config: {sya: hi}
  - id: two
    type: nope
edges:
  - from: one
    to: two
    condition: "x >"
"""
WARNED = """
name: warned
entry: one
nodes:
  - {id: one, type: agent, config: {agent: helper}}
  - {id: two, type: script, config: {runtime: lua, source: "print(1)"}}
edges:
  - {from: one, to: __end__}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_nodes.py").write_text(TYPES)
    for name, text in (("line", LINE), ("checked", CHECKED), ("warned", WARNED)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_nodes", raising=False)


OWN = ("--types", "own_nodes:registry")


def test_everything_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    """[CLI-119] `file:line: path: text`, all of a file and of every file; exit 2."""
    (tmp_path / "broken.json").write_text('{"name": "x",\n "entry": ')
    done = cli(tmp_path, "graph", "check", "checked.yaml", "broken.json", "gone.yaml", *OWN)
    assert done.returncode == 2 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith(
        "checked.yaml:7: nodes[0].config.sya: unknown field 'sya'; did you mean 'say'?"
    )
    assert lines[1].startswith("checked.yaml:9: nodes[1].type: no node type 'nope' is registered")
    assert lines[2].startswith("checked.yaml:13: edges[0].condition: the condition 'x >' does not compile")
    assert [line for line in lines if line.startswith("broken.json:2: ")]
    assert [line for line in lines if line.startswith("gone.yaml: ") and "cannot be read" in line]


def test_what_a_check_cannot_know_is_told_with_the_way_to_it(tmp_path: Path) -> None:
    """[CLI-119] Types that a program brings, and documents of another kind."""
    (tmp_path / "deploy.yaml").write_text("version: v1\nagents: {a: {engine: {kind: agent.Engine}}}\n")
    done = cli(tmp_path, "graph", "check", "line.yaml", "deploy.yaml")
    first, *_, last = done.stderr.splitlines()
    assert "no node type 'say'" in first and "--types MODULE:NAME" in first
    assert last.startswith("deploy.yaml: this is a deployment document, no graph: ")


def test_an_input_that_is_given_is_no_note(tmp_path: Path) -> None:
    """[CLI-121] A run says what is probably not meant once; a check says which inputs there must be."""
    (tmp_path / "needs.yaml").write_text(
        LINE.replace("who:nobody", "who").replace("- {from: two, to: __end__}", "")
    )
    done = cli(tmp_path, "graph", "run", "needs.yaml", "--input", "who=Ann", *OWN)
    assert done.stdout == "Good day, Ann.\n"
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1 and notes[0].startswith("note: needs.yaml: dead_end_node: node 'two'")


def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path) -> None:
    """[CLI-119] Warnings have a line and are no error; a check needs neither model nor agents."""
    done = cli(tmp_path, "graph", "check", "warned.yaml")
    assert done.returncode == 0 and done.stderr == ""
    first, second, last = done.stdout.splitlines()
    assert first.startswith("warned.yaml:6: warning: unreachable_node: node 'two'")
    assert second.startswith("warned.yaml:6: warning: dead_end_node: node 'two'")
    assert last == "warned.yaml: ok"


def test_a_verdict_is_one_line_of_json(tmp_path: Path) -> None:
    """[CLI-119] With `--json`, findings and warnings with line, path, kind and text."""
    done = cli(tmp_path, "graph", "check", "warned.yaml", "checked.yaml", "--json")
    fine, wrong = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2 and done.stderr == ""
    assert (fine["ok"], [w["kind"] for w in fine["warnings"]]) == (
        True,
        ["unreachable_node", "dead_end_node"],
    )
    assert {**fine["warnings"][0], "message": ""} == {
        "line": 6,
        "kind": "unreachable_node",
        "node": "two",
        "message": "",
    }
    assert [(f["line"], f["kind"]) for f in wrong["findings"]] == [
        (6, "not_found"),
        (9, "not_found"),
        (13, "validation"),
    ]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("own_nodes", "must look like package.module:registry"),
        ("own_nodes:registri", "its registrys: ['registry']; did you mean 'registry'?"),
        ("own_nodes:number", "is int, no registry"),
        ("nowhere:x", "cannot import 'nowhere'"),
    ],
)
def test_what_is_no_registry_is_told(tmp_path: Path, target: str, said: str) -> None:
    """[CLI-120] What is wrong and what there is."""
    done = cli(tmp_path, "graph", "check", "line.yaml", "--types", target)
    assert done.returncode == 2 and said in done.stderr


def test_a_graph_is_run_with_variables(tmp_path: Path) -> None:
    """[CLI-121] What was said last goes to stdout, the nodes to stderr; values are JSON, or text."""
    (tmp_path / "in.yaml").write_text("who: nobody\nn: 3\n")
    done = cli(tmp_path, "graph", "run", "line.yaml", *OWN, "--inputs", "in.yaml", "--input", "who=Ada")
    assert (done.returncode, done.stdout) == (0, "Good day, Ada.\n")
    assert [line.split()[3:6] for line in done.stderr.splitlines()[1:5]] == [
        ["one", "(say)", "…"],
        ["one", "(say)", "done"],
        ["two", "(say)", "…"],
        ["two", "(say)", "done"],
    ]
    silent = LINE.replace('say: "Good day, ${board:who:nobody}.", ', "")
    (tmp_path / "silent.yaml").write_text(silent)
    done = cli(tmp_path, "graph", "run", "silent.yaml", *OWN, "--input", "n=[1, 2]", "--input", "t=1x")
    assert json.loads(done.stdout) == {"n": [1, 2], "t": "1x", "said": ["one", "two"]}


def test_a_graph_asks_the_model_of_the_options(tmp_path: Path) -> None:
    """[CLI-121] The prompt is the user's message; nodes are events of `--json`."""
    (tmp_path / "chat.yaml").write_text(
        "name: chat\nentry: a\nnodes: [{id: a, type: agent, config: {agent: explore}}]\n"
    )
    with ScriptedEndpoint([{"text": "Hello."}]) as endpoint:
        model = ("--model", "openai:small", "--base-url", endpoint.url)
        done = cli(tmp_path, "graph", "run", "chat.yaml", "Hi there", *model, env={"OPENAI_API_KEY": "k"})
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert endpoint.requests[0].body["messages"][-1]["content"] == "Hi there"


def test_ways_to_end_have_their_codes(tmp_path: Path) -> None:
    """[CLI-121] A failed node 1, a limit 3, an open question 4, wrong options and documents 2."""
    run = ("graph", "run", "line.yaml", *OWN)
    done = cli(tmp_path, *run, "--input", "needs=key")
    assert done.returncode == 1 and "toolnexus: it may not" in done.stderr
    done = cli(tmp_path, *run, "--max-iterations", "1")
    assert done.returncode == 3 and "max_iterations 1" in done.stderr
    (tmp_path / "ask.yaml").write_text("name: ask\nentry: a\nnodes: [{id: a, type: ask}]\n")
    (tmp_path / "day.yaml").write_text("day: 2026-01-01\n")
    assert cli(tmp_path, "graph", "run", "ask.yaml", *OWN, "--json").returncode == 4
    for more, said in (
        (("--timeout", "5"), "--timeout: '5' is no duration"),
        (("--retries", "-1"), "'-1' must be a whole number, 0 or more"),
        (("--input", "x"), "must look like name=value"),
        (("--inputs", "in.txt"), "must end in"),
        (("--inputs", "gone.json"), "cannot be read"),
        (("--inputs", "day.yaml"), "--inputs: vars.day: date is not JSON"),
        (("--resume",), "--resume goes on behind a checkpoint"),
    ):
        done = cli(tmp_path, *run, *more)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = cli(tmp_path, "graph", "run", "checked.yaml")
    assert done.returncode == 2 and "checked.yaml:13: edges[0].condition" in done.stderr


def test_a_run_goes_on_behind_its_checkpoint(tmp_path: Path) -> None:
    """[CLI-122] Nothing that finished runs again; a run that ended leaves no checkpoint."""
    run = ("graph", "run", "line.yaml", *OWN, "--checkpoints", "kept.sqlite")
    done = cli(tmp_path, *run, "--input", "needs=key")
    assert done.returncode == 1
    line = next(
        line for line in done.stderr.splitlines() if line.startswith("go on, with the same options: ")
    )
    assert line.split()[6:-1] == "toolnexus graph run line.yaml --checkpoints kept.sqlite --resume".split()
    assert cli(tmp_path, *run, "--resume").returncode == 1  # as it is, it fails again
    (tmp_path / "line.yaml").write_text(LINE.replace("${board:needs:}", ""))
    changed = cli(tmp_path, *run, "--resume", line.split()[-1])
    assert changed.returncode == 1 and "the graph was changed since" in changed.stderr
    (tmp_path / "line.yaml").write_text(LINE)
    (tmp_path / "no.sqlite").write_text("no database")
    unusable = cli(tmp_path, *run[:-1], "no.sqlite")
    assert unusable.returncode == 1 and "starts" not in unusable.stderr
    lost = cli(tmp_path, *run, "--resume", "run_gone")
    assert lost.returncode == 2 and line.split()[-1] in lost.stderr
    prompt = cli(tmp_path, *run, "--resume", "run_1", "again")
    assert prompt.returncode == 2 and "leave out the prompt" in prompt.stderr


def test_at_a_terminal_the_waves_are_seen_and_questions_answered(warm: Warm, tmp_path: Path) -> None:
    """[CLI-121] [CLI-122] A question is answered there; the tree stays, a line for each node."""
    ask = "name: ask\nentry: a\nnodes: [{id: a, type: say}, {id: b, type: ask}]\nedges: [{from: a, to: b}]\n"
    (tmp_path / "ask.yaml").write_text(ask)
    run = ["graph", "run", "ask.yaml", *OWN, "--checkpoints", "kept.sqlite"]
    with Terminal(warm, tmp_path, run) as terminal:
        terminal.expect("Which colour?")
        terminal.send("blue\n")
        assert terminal.wait() == 0
        tree = [line for line in terminal.screen if line[:2] in ("├ ", "└ ")]
        assert [line.split()[1:3] for line in tree] == [["a", "say"], ["b", "ask"]]
        assert '"colour": "blue"' in terminal.output
    assert cli(tmp_path, *run, "--resume").returncode == 2  # it is done


def test_a_graph_is_drawn(tmp_path: Path) -> None:
    """[CLI-123] Mermaid on stdout; Mermaid, DOT, SVG or PNG by the name of the file."""
    done = cli(tmp_path, "graph", "draw", "warned.yaml")
    assert done.stdout.splitlines()[:2] == ["flowchart TD", "    start([start]) --> n0"]
    for name, begins in (("a.mmd", b"flowchart TD"), ("a.dot", b'digraph "warned"'), ("a.PNG", b"\x89PNG")):
        assert cli(tmp_path, "graph", "draw", "warned.yaml", "-o", name).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(begins)
    odd = (
        'name: "a\\\\\\"<b>"\nentry: a\nnodes: [{id: a, type: x, skip_condition: "x == \\"&<\\\\n>\\"\\e"}]\n'
    )
    (tmp_path / "odd.yaml").write_text(odd + 'edges: [{from: a, to: a, condition: "`${x}` [#]"}]\n')
    assert cli(tmp_path, "graph", "draw", "odd.yaml", "-o", "a.svg").returncode == 0
    svg = (tmp_path / "a.svg").read_text()
    assert "skip if x == &quot;&amp;&lt;\\n&gt;&quot;" in svg and "`${x}` [#]" in svg and "\x1b" not in svg


def test_what_cannot_be_drawn_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CLI-123] Another ending, a folder that is not there, no Graphviz, a document that is none."""
    for more, said in (
        (("line.yaml", "-o", "a.gif"), "must end in .mmd, .dot, .svg or .png"),
        (("line.yaml", "-o", "gone/a.mmd"), "cannot be written"),
        (("gone.yaml",), "gone.yaml: "),
    ):
        done = cli(tmp_path, "graph", "draw", *more)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    monkeypatch.setattr("toolnexus.cli.graph_draw.PROGRAMS", ("no-graphviz",))
    done = cli(tmp_path, "graph", "draw", "line.yaml", "-o", "a.svg")
    assert done.returncode == 2 and "install the extra 'graph-draw'" in done.stderr


def test_the_schema_is_printed_and_in_the_package(tmp_path: Path) -> None:
    """[CLI-124] To write it anew: toolnexus graph schema > toolnexus/graph/schema.json."""
    printed = cli(tmp_path, "graph", "schema").stdout
    assert printed == (ROOT / "toolnexus" / "graph" / "schema.json").read_text("utf-8")
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_knows_what_a_document_may_hold() -> None:
    """[CLI-124] Fields, ids, and the fields of built-in types; of types of a host it says nothing."""
    validator: Any = jsonschema.Draft202012Validator(json_schema())

    def fits(config: Any, type: str = "script", **more: Any) -> bool:
        node = {"id": "a", "type": type, "config": config}
        return validator.is_valid({"name": "g", "entry": "a", "nodes": [node], **more})

    assert fits({"runtime": "js", "source": {"file": "a.js"}}) and fits({"any": 1}, "own")
    assert fits({"messages_channel": "x"}, "tool", version="2", edges=[{"from": "a", "to": "__end__"}])
    assert not fits({"runtime": "js"}) and not fits({"runtime": "js", "source": "1", "langage": "js"})
    assert not fits({}, "tool", edges=[{"from": "a"}]) and not fits({}, "tool", metadata={})
    assert not validator.is_valid({"name": "g", "entry": "a", "nodes": [{"id": "__a", "type": "x"}]})
    assert not validator.is_valid({"name": "g", "entry": "a", "nodes": []})
