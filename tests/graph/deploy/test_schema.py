"""The JSON Schema of deployment documents, held to the reader."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import toolnexus.graph
from tests.graph.deploy.documents import GREET, changed, refused, registry
from toolnexus.cli.main import main
from toolnexus.graph import deploy, deployment_schema

ROOT = Path(toolnexus.graph.__file__).parent / "deployment"
PAGE = (Path(__file__).parents[3] / "docs" / "graph-deploy.md").read_text()
DOCUMENTS = [text for _, text in re.findall(r"^```yaml (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]
SCHEMA: Any = Draft202012Validator(deployment_schema())
GOOD: dict[str, Any] = {
    **yaml.safe_load(GREET),
    "version": "v1",
    "runtime": {"event_bus": "bus", "checkpoint_store": "kept"},
}
GOOD["resources"] |= {
    "bus": {"kind": "event.Bus", "impl": "memory"},
    "kept": {"kind": "checkpoint.Store", "impl": "sqlite", "settings": {"path": "/tmp/x.db"}},
    "acme": {
        "kind": "inference.Provider",
        "impl": "openai",
        "settings": {"models": ["small"], "api_key": "k"},
    },
    "models": {"kind": "inference.Assembly", "impl": "unified", "deps": {"provider.one": "acme"}},
    "router": {
        "kind": "inference.Router",
        "impl": "unified",
        "deps": {"target": "models"},
        "settings": {"models": ["acme/small"]},
    },
}


def test_it_is_printed_and_in_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-124] To write it anew: toolnexus graph schema --deployment > …/graph/deployment/schema.json."""
    assert main(["graph", "schema", "--deployment"]) == 0
    assert capsys.readouterr().out == (ROOT / "schema.json").read_text("utf-8")
    Draft202012Validator.check_schema(deployment_schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), None),
        (("resources", "bus", "deps"), None),
        (("resources", "bus", "settings"), {}),
        (("resources", "models", "deps"), {"provider": "acme"}),
        (
            ("resources", "own"),
            {"kind": "graph.NodeType", "impl": "greeting", "settings": {"word": "a", "b": 1}},
        ),
        (("agents", "asst", "policy"), {"max_revise": 0, "run_timeout": "1h30m"}),
        (("agents", "asst", "policy"), {"run_timeout": 0}),
        (("agents", "asst", "tools"), None),
        (("runtime",), None),
    ],
)
def test_what_the_reader_takes_fits(path: tuple[str, ...], value: Any) -> None:
    """[GR-529] With resources of the host in it, too."""
    document = changed(GOOD, *path, to=value) if path else GOOD
    deploy(document, registry=registry())
    assert list(SCHEMA.iter_errors(document)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), "v2"),
        (("sessions",), {}),
        (("agents",), {}),
        (("agents", "a b"), GOOD["agents"]["asst"]),
        (("resources", "1a"), {"kind": "event.Bus", "impl": "memory"}),
        (("resources", "bus", "kind"), ""),
        (("resources", "bus", "extra"), 1),
        (("resources", "bus", "settings"), {"size": 1}),
        (("resources", "bus", "deps"), {"other": "kept"}),
        (("resources", "kept", "settings"), {"path": "x.db", "file": "y"}),
        (("resources", "kept", "settings"), {}),
        (("resources", "acme", "settings"), {"models": ["small"], "api_kye": "k"}),
        (("resources", "models", "deps"), {"providers": "acme"}),
        (("resources", "router", "deps"), {"target.two": "models"}),
        (("resources", "router", "deps"), {}),
        (("agents", "asst", "engine", "settings", "grpah"), {}),
        (("agents", "asst", "policy"), {"max_revise": -1}),
        (("agents", "asst", "policy"), {"max_revise": 1.5}),
        (("agents", "asst", "policy"), {"run_timeout": 30}),
        (("agents", "asst", "prepare"), [{"deps": {"a": "bus"}}]),
        (("agents", "asst", "card", "title"), "x"),
        (("runtime",), {"checkpoint_store": "kept"}),
    ],
)
def test_what_does_not_fit_the_reader_refuses(path: tuple[str, ...], value: Any) -> None:
    """[GR-529] And the other way round."""
    document = changed(GOOD, *path, to=value)
    assert not SCHEMA.is_valid(document)
    assert refused(document)


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_the_documents_of_the_page_fit(text: str) -> None:
    """[GR-529] As they are written, with variables."""
    assert list(SCHEMA.iter_errors(json.loads(json.dumps(yaml.safe_load(text))))) == []
