"""From names to models, and which key goes where."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.models.support import KEY
from toolnexus import Client
from toolnexus.core.messages import user
from toolnexus.core.model import ModelRequest
from toolnexus.errors import ConfigError
from toolnexus.models.anthropic import AnthropicModel
from toolnexus.models.base import Model
from toolnexus.models.fallback import FallbackModel
from toolnexus.models.function import FunctionModel
from toolnexus.models.http import HttpPool
from toolnexus.models.keys import KEYS, endpoint
from toolnexus.models.openai import OpenAIModel
from toolnexus.models.registry import resolve, split_spec
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", *KEYS.values()}:
        monkeypatch.delenv(name, raising=False)


def test_a_name_gives_the_model_of_its_style(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-35] `provider:name` is a model at the vendor's endpoint, with the key from its variable."""
    monkeypatch.setenv("OPENAI_API_KEY", " key-of-openai\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-anthropic")
    one, two = resolve("openai:gpt-5-mini"), resolve("anthropic:claude-x:1")
    assert isinstance(one, OpenAIModel) and isinstance(two, AnthropicModel)
    assert (one.name, one.host, one.provider) == ("gpt-5-mini", "api.openai.com", "openai")
    assert (two.name, two.host, two.provider) == ("claude-x:1", "api.anthropic.com", "anthropic")
    assert "key-of-openai" in one.secrets
    assert isinstance(one, Model)


@pytest.mark.parametrize("spec", ["gpt-5-mini", "openai:", ":x", "", "opanai:gpt-5", "claude-x", "http://x"])
def test_a_wrong_name_shows_how_it_is_written(spec: str) -> None:
    """[WIRE-35] A missing or unknown provider is an error with the providers and an example."""
    with pytest.raises(ConfigError) as caught:
        resolve(spec)
    text = str(caught.value)
    assert repr(spec) in text and "openai, anthropic" in text and "Example: '" in text
    if spec == "opanai:gpt-5":
        assert "did you mean 'openai'" in text


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("opnai:gpt", ": unknown provider 'opnai'; did you mean 'openai'? Providers"),
        ("openai:", ": the model name is missing. Providers"),
        ("qwen3:8b", "unknown provider 'qwen3'; a model of that name is 'openai:qwen3:8b'. Providers"),
        ("us.claude-x:0", "a model of that name is 'anthropic:us.claude-x:0'."),
        ("http://host/v1", "an address goes into base_url."),
        ("gpt-5-mini", ": the provider in front is missing. Providers"),
    ],
)
def test_a_wrong_name_says_what_is_wrong_with_it(spec: str, said: str) -> None:
    """[WIRE-35] Provider unknown, name missing, a name that holds a colon: each is told apart."""
    with pytest.raises(ConfigError) as caught:
        Client(model=spec)
    assert said in str(caught.value)
    assert "?." not in str(caught.value)


def test_a_class_or_a_function_is_no_model() -> None:
    """[WIRE-45] Instead of a model object, its class or a bare function says how to make one."""
    for make in (resolve, FallbackModel):
        with pytest.raises(ConfigError, match="model=OpenAIModel is a class; pass an instance"):
            make(OpenAIModel)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigError, match=r"is a function; make it a model with FunctionModel\(fn\)"):
            make(lambda request: "x")  # pyright: ignore


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api_key": 12345678}, "api_key must be a text, not int"),
        ({"base_url": 5}, "base_url must be a text, not int"),
        ({"headers": {"a": 12345678}}, "header 'a': name and value must be texts, not int"),
        ({"headers": {1: "b"}}, "header 1: name and value must be texts"),
        ({"headers": [("a", "b")]}, "headers must be a mapping"),
    ],
)
@pytest.mark.parametrize("wire", [None, "sdk"])
def test_options_of_the_wrong_type_are_refused(options: dict[str, Any], said: str, wire: str | None) -> None:
    """[WIRE-45] Address, key and headers are texts; the error names the option and not its value."""
    given: dict[str, Any] = {"base_url": "http://127.0.0.1:9", **options}
    with pytest.raises(ConfigError, match=said) as caught:
        OpenAIModel("m", wire=wire, **given)
    assert "12345678" not in str(caught.value)
    if wire is None:
        with pytest.raises(ConfigError, match=said):
            Client(model="openai:m", **given)


def test_a_twin_needs_a_name_too() -> None:
    """[WIRE-45] A model at the same endpoint is not made without its name."""
    with pytest.raises(ConfigError, match="name is missing"):
        OpenAIModel("m", base_url="http://127.0.0.1:9").named("")


def test_a_spec_is_split_at_the_first_colon() -> None:
    """[WIRE-35] Model names may hold colons."""
    assert split_spec("openai:qwen3:8b") == ("openai", "qwen3:8b")


def test_a_model_passes_as_it_is() -> None:
    """[WIRE-35] A `Model` is given back; options that belong to a name are refused beside it."""
    model = FunctionModel(lambda request: "x")
    assert resolve(model) is model
    with pytest.raises(ConfigError, match="api_key"):
        resolve(model, api_key="x")
    with pytest.raises(ConfigError, match="generate"):
        resolve(7)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("host", sorted(KEYS))
def test_each_known_host_gets_the_key_of_its_variable(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-36] The key is looked up by the host that the request goes to, and no other key is sent."""
    for variable in set(KEYS.values()):
        monkeypatch.setenv(variable, f"key-in-{variable}")
    assert endpoint("openai", f"https://{host}/v1", None) == (f"https://{host}/v1", f"key-in-{KEYS[host]}")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:11434/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil.example/api.openai.com",
        "https://evil.example:443/v1",
    ],
)
def test_any_other_host_gets_no_key(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-36] A host that is not in the table gets an explicit key or none."""
    for variable in set(KEYS.values()):
        monkeypatch.setenv(variable, "key-of-a-vendor")
    assert endpoint("openai", url, None) == (url, None)
    assert endpoint("openai", url, "mine") == (url, "mine")


def test_a_missing_key_says_the_three_ways_on() -> None:
    """[WIRE-36] A known host without a key fails at construction: variable, api_key, base_url."""
    with pytest.raises(ConfigError) as caught:
        resolve("anthropic:claude-x")
    text = str(caught.value)
    assert "api.anthropic.com" in text
    for way in ("ANTHROPIC_API_KEY", "api_key=", "base_url="):
        assert way in text


def test_a_vendors_key_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-36] A known host over plain http is refused."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match="https"):
        OpenAIModel("m", base_url="http://api.openai.com/v1")


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://x/v1", "http://", "https://a:b@host/v1", "http://[x"]
)
def test_a_wrong_address_is_refused(url: str) -> None:
    """[WIRE-36] An address is plain http or https with a host, and holds no login."""
    with pytest.raises(ConfigError) as caught:
        OpenAIModel("m", base_url=url)
    assert "a:b" not in str(caught.value)


async def test_the_variable_of_the_style_names_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-36] `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL` replace the vendor; an argument wins."""
    async with ScriptedEndpoint([Turn(text="ok")] * 2) as server:
        pool = HttpPool()
        for provider in ("openai", "anthropic"):
            monkeypatch.setenv(f"{provider.upper()}_BASE_URL", server.url)
            model = resolve(f"{provider}:x", pool=pool)
            await model.generate(ModelRequest(messages=(user("x"),)))
            await model.aclose()
        assert [seen.path for seen in server.requests] == ["/v1/chat/completions", "/v1/messages"]
        assert resolve("openai:x", base_url="http://127.0.0.1:9/v1").host == "127.0.0.1:9"  # pyright: ignore


def test_a_model_needs_a_name() -> None:
    """[WIRE-35] An empty model name is refused."""
    with pytest.raises(ConfigError, match="name"):
        OpenAIModel("", base_url="http://127.0.0.1:9")


def test_making_a_model_loads_no_sdk_and_no_client() -> None:
    """[WIRE-37] Until its first request a model has loaded neither an SDK nor an HTTP client."""
    code = (
        "import sys; from toolnexus.models.registry import resolve; "
        "resolve('openai:a', base_url='http://127.0.0.1:9'); "
        "resolve('anthropic:a', base_url='http://127.0.0.1:9'); "
        "import toolnexus.models.fallback, toolnexus.models.function, toolnexus.testing; "
        "heavy = {'openai', 'anthropic', 'pydantic', 'httpx', 'httpx2', 'aiohttp', 'mcp'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
