"""What a document serves, and where: keyword arguments of `serve`."""

from __future__ import annotations

from typing import Any

from toolnexus.config import shape
from toolnexus.config.values import Filler
from toolnexus.models.keys import check_url

OPTIONS = ("a2a", "mcpServer", "serve")
"""What a variable is needed for that only stands there: a client needs none of it."""

_WRITTEN_OUT = "the token is written out; ${NAME} takes it from a variable, so that the file can be shared"


def read_serving(root: shape.Root, filler: Filler, report: list[str]) -> dict[str, Any]:
    """What is given of it; `a2a` and `mcp` are there when their tables are."""
    out: dict[str, Any] = {} if root.serve is None else root.serve.given()
    if "host" in out:
        out["host"] = filler.text(out["host"], "serve.host", "serve")
    if root.a2a is not None:
        out["a2a"] = agent = root.a2a.given()
        _token(agent, "a2a", filler, report)
        if "url" in agent:
            agent["url"] = filler.url(agent["url"], "a2a.url", "a2a")
            if agent["url"]:
                filler.attempt("a2a.url", check_url, agent["url"])
        if "tasks" in agent:
            place = agent["tasks"]
            read = filler.url if "://" in place else filler.path
            agent["tasks"] = read(place, "a2a.tasks", "a2a")
    if root.mcp_server is not None:
        out["mcp"] = tools = root.mcp_server.given()
        _token(tools, "mcpServer", filler, report)
    return out


def _token(table: dict[str, Any], place: str, filler: Filler, report: list[str]) -> None:
    """A token that is missing must never mean that nobody needs one."""
    if "token" not in table:
        return
    written, key = table["token"], f"{place}.token"
    table["token"] = token = filler.secret(written, key, place)
    if token is not None and not token.strip():
        filler.findings.append(f"{key}: it is empty; leave the key away when nobody needs a token")
    filler.redact.add(token or "")
    if written.strip() and "${" not in written:
        report.append(f"{key}: {_WRITTEN_OUT}")
