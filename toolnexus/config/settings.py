"""What a document means: for each option of a client, what makes its value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from toolnexus.config import shape
from toolnexus.config.check import Checked
from toolnexus.config.endpoint import OPTIONS, read_endpoint
from toolnexus.config.http_tools import read_tools
from toolnexus.config.roles import MODELS, Roles, read_roles
from toolnexus.config.servers import read_mcp, read_servers
from toolnexus.config.serving import OPTIONS as SERVING
from toolnexus.config.serving import read_serving
from toolnexus.config.unasked import unasked
from toolnexus.config.values import Filler
from toolnexus.core.usage import Budget, Price
from toolnexus.errors import ConfigError
from toolnexus.models.registry import split_spec
from toolnexus.stores.address import is_address, store_at
from toolnexus.tools.builtin.catalog import BOUND_ELSEWHERE, builtin_tools
from toolnexus.tools.builtin.options import BuiltinOptions

_PASSWORD = "the password is written out; ${NAME} takes it from a variable, so that the file can be shared"
_PLAIN = (
    *("system_prompt", "max_turns", "max_sub_agent_depth", "max_sub_agents", "max_declared_tools"),
    "permissions",
)


class Settings:
    """Reads every key once. What is wrong is collected in `filler`, never raised.

    What may be missing only because something was cut out is no finding.
    """

    def __init__(self, checked: Checked, folder: Path) -> None:
        self._root = root = checked.root
        self._checked = checked
        self.filler = Filler(folder)
        self.report: list[str] = []
        """`key: text` lines for what was read and is not as good as it could be."""
        self.makers: dict[str, Callable[[], Any]] = {}
        """By option: makes its value, a new one each time. The model is in `endpoint`."""
        self.roles: Roles | None = None
        self._model()
        for name, value in root.given(*_PLAIN).items():
            self.makers[name] = partial(deepcopy, value)
        if root.budget is not None:
            self.makers["budget"] = partial(Budget, **root.budget.given())
        self._prices()
        self._allowed_models()
        self._servers()
        self._skills()
        self._builtins()
        if root.http or root.openapi:
            self.makers["tools"] = read_tools(root, self.filler)
        if root.agents is not None or root.agent_files is not None:
            whole = checked.has_whole("agents", depth=2) and checked.has_whole("agent_files", depth=9)
            self.roles = read_roles(root, self.filler, self.report, whole=whole)
            self.makers["agents"] = self.roles.make
        self._store()
        self._workdir()
        self.serving = read_serving(root, self.filler, self.report)
        self._instructions()

    def lacking(self, overrides: Mapping[str, Any]) -> list[str]:
        """What is not there of all that is used beside options that the host gives itself."""
        of_model = self.endpoint.used(overrides).missing.values()
        makers = [name for name in self.makers if name not in overrides]
        more = [MODELS] if "agents" in makers else []
        return [*(line for lines in of_model for line in lines), *self.filler.lacking([*makers, *more])]

    def lacking_to_look(self, overrides: Mapping[str, Any]) -> list[str]:
        """What is not there of all that is used when nothing is asked or stored."""
        unused = {*overrides, "store", "allowed_models"}
        return self.filler.lacking([name for name in self.makers if name not in unused])

    def lacking_to_serve(self) -> list[str]:
        """What is not there of what is used beside the client when it is served."""
        return self.filler.lacking(SERVING)

    def options_to_look(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of a client that is not asked."""
        makers = {n: make for n, make in self.makers.items() if n not in {*overrides, "store"}}
        if self.roles is not None and "agents" in makers:
            makers["agents"] = partial(self.roles.make, asked=False)
        model = self.endpoint.model
        return unasked({"model": model, **_made(makers, overrides)})

    def options(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of a client. Raises `ConfigError` for a known host without a key."""
        makers = {name: make for name, make in self.makers.items() if name not in overrides}
        given = {name: value for name, value in overrides.items() if name not in OPTIONS}
        return self.endpoint.used(overrides).options() | _made(makers, given)

    def _model(self) -> None:
        root, findings = self._root, self.filler.findings
        beside = root.given(*OPTIONS[1:])
        if isinstance(root.model, shape.Model):
            findings += [
                f"{name}: the model is a table; this goes in there, as model.{name}" for name in beside
            ]
            self.endpoint = read_endpoint(root.model, "model", self.filler, self.report)
            return
        whole = self._checked.has_whole("model") and self._checked.has_whole("base_url")
        if whole and root.model is None and root.base_url is None:
            findings += [f"{name}: it goes with a 'model' or a 'base_url'; give that, too" for name in beside]
        model = shape.Model.model_construct(name=root.model, **beside)
        self.endpoint = read_endpoint(model, "", self.filler, self.report)

    def _prices(self) -> None:
        prices = self._root.prices
        if isinstance(prices, bool):
            self.makers["prices"] = lambda: prices
        elif prices is not None:
            made = {name: Price(**table.given()) for name, table in prices.items()}
            self.makers["prices"] = lambda: made

    def _allowed_models(self) -> None:
        if self._root.allowed_models is None:
            return
        models: list[str] = []
        for i, text in enumerate(self._root.allowed_models):
            place = f"allowed_models[{i}]"
            name = self.filler.text(text, place, "allowed_models")
            if name is not None:
                models.append(name)
                if ":" in name:
                    self.filler.attempt(place, split_spec, name)
        self.makers["allowed_models"] = partial(list, models)

    def _servers(self) -> None:
        root = self._root
        if root.mcp is not None and root.mcp_servers is not None:
            self.filler.findings.append("mcp: servers stand under 'mcpServers', too; keep one of them")
        elif root.mcp is not None:
            self.makers["mcp"] = partial(deepcopy, read_mcp(root.mcp, self.filler, self.report))
        elif root.mcp_servers:
            self.makers["mcp"] = partial(deepcopy, read_servers(root.mcp_servers, self.filler, self.report))

    def _skills(self) -> None:
        given = self._root.skills
        if given is None:
            return
        options: dict[str, Any] = {}
        if isinstance(given, shape.Skills):
            place, folders, options = (
                "skills.paths",
                given.paths,
                given.given("filter", "sample_limit", "pre_approve"),
            )
        else:
            place, folders = "skills", given
        paths = self.filler.paths(folders, place, "skills")
        for path in paths:
            if path is not None and not os.path.isdir(path):
                self.filler.lacks("skills", place, f"there is no folder {str(path)!r}")
        self.makers["skills"] = partial(deepcopy, {**options, "paths": paths} if options else paths)

    def _builtins(self) -> None:
        given: Any = self._root.builtins
        if given is None:
            return
        if isinstance(given, shape.Builtins):
            given = given.given()
            hosts = [
                self.filler.text(host, f"builtins.webfetch_allow[{i}]", "builtins")
                for i, host in enumerate(given.get("webfetch_allow", ()))
            ]
            if hosts:
                given["webfetch_allow"] = [host for host in hosts if host is not None]
        self.filler.attempt("builtins", _check_builtins, given)
        self.makers["builtins"] = partial(deepcopy, given)

    def _store(self) -> None:
        given = self._root.store
        text = None if given is None else self.filler.url(given, "store", "store")
        if text is None:
            return
        if is_address(text):
            self._store_on_server(text, given)
            return
        path = self.filler.as_path(text, "store")
        if path is None:
            return
        if path.name == ":memory:":
            self.filler.findings.append(
                "store: it is the path of a file; left out, conversations stay in memory"
            )
        elif os.path.isdir(path) or not os.path.isdir(path.parent):
            what = "a folder, not a file" if os.path.isdir(path) else "in a folder that does not exist"
            self.filler.lacks("store", "store", f"{str(path)!r} is {what}")
        elif os.path.exists(path) and not os.path.isfile(path):
            self.filler.lacks("store", "store", f"{str(path)!r} is no regular file")
        self.makers["store"] = partial(store_at, path)

    def _store_on_server(self, address: str, written: str | None) -> None:
        try:
            store = store_at(address)  # opens nothing
            if "${" not in (written or "") and getattr(store, "secrets", ()):
                self.report.append(f"store: {_PASSWORD}")
        except ConfigError as error:
            if isinstance(error.__cause__, ImportError):
                self.filler.lacks("store", "store", str(error))
            else:
                self.filler.findings.append(f"store: {error}")
        self.makers["store"] = partial(store_at, address)

    def _workdir(self) -> None:
        text = self._root.workdir
        path = None if text is None else self.filler.path(text, "workdir", "workdir")
        if path is not None and not os.path.isdir(path):
            self.filler.lacks("workdir", "workdir", f"there is no folder {str(path)!r}")
        if text is not None:
            self.makers["workdir"] = partial(deepcopy, path)

    def _instructions(self) -> None:
        given = self._root.instructions
        if isinstance(given, str):
            path = self.filler.path(given, "instructions", "instructions")
            if path is not None and not os.path.isfile(path):
                self.filler.lacks("instructions", "instructions", f"there is no file {str(path)!r}")
            self.makers["instructions"] = partial(deepcopy, path)
        elif given is not None:
            self.makers["instructions"] = lambda: given


def _made(makers: Mapping[str, Callable[[], Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options: what `makers` make, and what is `given`.

    Agents elsewhere whose skills are tools stand among the tools of the host.
    """
    out = {name: make() for name, make in makers.items()}
    sources: list[Any] = []
    if "agents" in out:
        out["agents"], sources = out["agents"]
    out |= given
    return {**out, "tools": [*out.get("tools", ()), *sources]} if sources else out


def _check_builtins(value: Any) -> None:
    BuiltinOptions.of(value).names.check([*(t.name for t in builtin_tools()), *BOUND_ELSEWHERE], "builtins")
