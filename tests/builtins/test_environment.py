"""What commands see of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builtins.helpers import output
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.secrets import secret_name, secret_value
from toolnexus.tools.builtin.environment import child_environment

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "name",
    (
        "OPENAI_API_KEY_2 API_KEY_OPENAI STRIPE_KEY_LIVE GH_TOKEN_RO TOKENS PASS PASSWD "
        "NPM_CONFIG__AUTHTOKEN AZURE_STORAGE_CONNECTION_STRING ConnectionStrings__Default DB_CONN_STR "
        "SENTRY_DSN SECRETX apikey npm_config_//registry.npmjs.org/:_authToken AWS_ACCESS_KEY_ID "
        "accessToken KUBE_TOKEN2 PGPASSWORD SSHPASS X-Api-Key Proxy-Authorization MYSQL_PWD COOKIE"
    ).split(),
)
def test_a_name_with_a_word_for_a_secret_in_it_is_one(name: str) -> None:
    """[BT-236] Wherever the word stands, in whatever case, with a number behind it or not."""
    assert secret_name(name)


@pytest.mark.parametrize(
    "name",
    (
        "PATH HOME PWD OLDPWD SSH_AUTH_SOCK MONKEY MAX_TOKENS MAX_KEYS KEYBOARD KEYMAP PATTERN COMPASS_WORDS "
        "BYPASS SSH_ASKPASS XAUTHORITY TOKENIZERS_PARALLELISM DBUS_SESSION_BUS_ADDRESS XDG_SESSION_ID "
        "GIT_CONFIG_KEY_0 LS_COLORS PYTHONPATH"
    ).split(),
)
def test_a_word_that_only_contains_one_is_none(name: str) -> None:
    """[BT-236] What commands work with stays."""
    assert not secret_name(name)


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("postgres://user:pass@host/db", True),
        ("redis://:pass@host", True),
        ("--url=https://user:pass@host", True),
        ("Server=db;User=u;Password=p", True),
        ("AccountName=a;AccountKey=k==", True),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nx", True),
        ("https://host:8443/a@b", False),
        ("ssh://git@host:22/repo", False),
        ("https://host/?a=b:c@d", False),
        ("/usr/bin:/bin", False),
        ("git@host:repo", False),
    ],
)
def test_a_value_may_show_that_it_is_a_secret(value: str, secret: bool) -> None:
    """[BT-236] A password in a URL or in a connection string, a private key."""
    assert secret_value(value) is secret


async def test_commands_do_not_see_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-236] Proxies and package indexes keep their passwords, unless the client knows these."""
    url = "https://user:hunter2@host"
    gone = ["DATABASE_URL", "GH_TOKEN_RO", "PASS", "SOME_DSN"]
    kept = ["HTTPS_PROXY", "http_proxy", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "GOPROXY"]
    for name in (*gone, *kept):
        monkeypatch.setenv(name, url)
    lines = (await output("bash", tmp_path, command="env")).split("\n")
    assert {line.partition("=")[0] for line in lines if "hunter2" in line} == set(kept)
    known = child_environment(frozenset(), Redactor(["hunter2"]), "mark")
    assert not [name for name, value in known.items() if "hunter2" in value]
