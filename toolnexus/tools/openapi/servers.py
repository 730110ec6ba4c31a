"""Where requests go: the first server of the nearest list, unless the host says it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from toolnexus.errors import ConfigError
from toolnexus.tools.http.template import UrlTemplate
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.report import Place, Report

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_ADVICE = "give base_url="


def checked_base(base_url: str | None, where: str) -> UrlTemplate | None:
    """`base_url` of the host. Raises `ConfigError`."""
    if base_url is None:
        return None
    base = UrlTemplate(base_url, f"{where}: base_url")
    if base.names:
        raise ConfigError(f"{where}: base_url has a placeholder, {base.names[0]!r}; write what it stands for")
    return base


class Servers:
    """The servers of one document. `address` is where the document itself was fetched, if it was."""

    def __init__(self, document: Document, base: UrlTemplate | None, address: str | None) -> None:
        self._document = document
        self._base = base
        self._address = address

    def base(self, holders: Sequence[tuple[Place, Mapping[str, Any]]], report: Report) -> str | None:
        """The address that paths go behind; `holders` may have lists of servers, the nearest first.

        None, and a finding, when there is none that may be used.
        """
        if self._base is not None:
            return self._base.fill({})
        for place, holder in (*holders, ((), self._document.root)):
            for where, server in self._document.items(holder, "servers", place, report):
                return self._of(server, where, report)
        return self._checked("/", ("servers",), report)

    def _of(self, server: Mapping[str, Any], place: Place, report: Report) -> str | None:
        url = server.get("url")
        if not isinstance(url, str):
            report.add(place, "a server needs a url")
            return None
        variables = self._document.table(server, "variables", place, report)
        for name in _VARIABLE.findall(url):
            told = variables.get(name)
            default = cast("dict[str, Any]", told).get("default") if isinstance(told, dict) else None
            if not isinstance(default, (str, int)):
                report.add(place, f"the variable {name!r} of {url[:100]!r} has no default; {_ADVICE}")
                return None
            url = url.replace(f"{{{name}}}", str(default))
        return self._checked(url, place, report)

    def _checked(self, url: str, place: Place, report: Report) -> str | None:
        shown = repr(url[:100])
        try:
            whole = urljoin(self._address, url) if self._address is not None else url
            parts = urlsplit(whole)
        except ValueError:
            report.add(place, f"{shown} is no address; {_ADVICE}")
            return None
        if not parts.netloc:
            report.add(place, f"no server with a host is named ({shown}); {_ADVICE}")
            return None
        if self._address is not None and parts[:2] != urlsplit(self._address)[:2]:
            # a document from elsewhere must not say where keys and requests of the host go
            report.add(
                place, f"{shown} is not where the document is from; if that is right, {_ADVICE}{shown}"
            )
            return None
        return whole
