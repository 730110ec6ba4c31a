"""What the host alone gives with a request: headers, and values of the query.

`${NAME}` in them is looked up for each request, and what it holds is masked from then on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError, ToolError, UnsetVariable
from toolnexus.protocols.http import check_headers
from toolnexus.tools.mcp_values import Reader, Values

_PARTS = re.compile(r"(\$\{[^}]*\}?)")


@frozen()
class Sent:
    """The values of one request."""

    headers: Mapping[str, str]
    query: str
    """Encoded pairs, `""` for none."""


class Keys:
    """Headers and query values as they were written, with their variables.

    Raises `ConfigError` that begins with `where` for what can be no header and no variable; that a
    variable is not set shows at a request.
    """

    def __init__(self, headers: Mapping[str, str], query: Mapping[str, str], where: str) -> None:
        try:
            check_headers(headers)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        self._where = where
        self._headers = dict(headers)
        self._query = dict(query)
        self._values = Values(None, ())
        self.names = frozenset(name.lower() for name in headers)
        """The headers, in lower case."""
        told = next((text for name, text in headers.items() if name.lower() == "cookie"), "")
        self.cookies = frozenset(pair.partition("=")[0].strip() for pair in told.split(";"))
        """The names in the header `Cookie`, as far as they are written out."""
        for key, text in (*self._headers.items(), *self._query.items()):
            for part in _PARTS.split(text):
                self._check(key, part)

    @property
    def secrets(self) -> list[str]:
        """What must not be shown, as far as it is known now."""
        reader = self._values.reader(self._where)
        for key, table in (("headers", self._headers), ("query", self._query)):
            for name, text in table.items():
                try:
                    reader.fill_table({name: text}, key)
                except UnsetVariable:
                    continue
        return _written(reader)

    def sent(self, mask: Callable[[str], None]) -> Sent:
        """The values for a request; each secret goes to `mask` first. Raises `ToolError`."""
        reader = self._values.reader(self._where)
        try:
            headers = reader.fill_table(self._headers, "headers")
            query = reader.fill_table(self._query, "query")
        except UnsetVariable as error:
            raise ToolError(f"not sent: {error}") from None
        for secret in _written(reader):
            mask(secret)
        for name, value in headers.items():
            if any(ord(c) < 32 or ord(c) == 127 for c in value):  # libraries show it in their complaint
                raise ToolError(f"not sent: the value of header {name!r} holds a control character")
        pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items()]
        return Sent(headers, "&".join(pairs))

    def _check(self, key: str, part: str) -> None:
        try:
            same = self._values.reader(self._where).fill(part, key) == part
        except UnsetVariable:
            return
        if same and part.startswith("${"):
            raise ConfigError(f"{self._where}: {key!r}: {part[:40]!r} is no variable; write ${{NAME}}")


def _written(reader: Reader) -> list[str]:
    """The secrets, also as they stand in an address and in JSON."""
    forms = [
        (text, quote(text, safe=""), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        for text in reader.secrets
    ]
    return list(dict.fromkeys(form for of_one in forms for form in of_one))
