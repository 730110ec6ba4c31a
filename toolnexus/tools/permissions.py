"""Rules about calls: allow, ask or deny, by tool and by what it is called with.

What it is: one layer of rules, of a client or of an agent. What it is not: a filter; a filter says
which tools there are. Layers lie on top of each other on the way down, and the strictest word holds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from toolnexus.core.tools import Tool
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.runtime.rights import Permissions, Ruling

Verdict = Literal["allow", "ask", "deny"]

VERDICTS = ("allow", "ask", "deny")
"""From the laxest to the strictest."""
_STRICTNESS: dict[str, int] = {verdict: n for n, verdict in enumerate(VERDICTS)}
RULE = r"(?P<tool>[A-Za-z0-9_*?\[\]!-]+)(?:\((?P<subject>[\s\S]*)\))?"
"""What a rule is written like."""
NO_RULE = "is no rule; write a tool, or tool(pattern)"
_RULE = re.compile(RULE)
_SUBJECT = {
    "bash": "command",
    "read": "path",
    "write": "path",
    "edit": "path",
    "grep": "path",
    "glob": "path",
    "webfetch": "url",
    "task": "agent",
    "skill": "name",
}
_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\$`])*\"|\\.", re.DOTALL)
_UNREADABLE = re.compile(r"[$`<>()\"'\\]|\b(?:eval|exec|source|command|builtin)\b")
_AROUND = re.compile(r"[;|&\n(){}`<>]")
_BEFORE = re.compile(
    r"[A-Za-z_]\w*\+?=.*|-.*|!|if|then|elif|else|while|until|do|time|coproc|exec|command|builtin|eval"
    r"|(?:.*/)?(?:env|nohup|sudo|xargs|nice|timeout|(?:ba|da|z)?sh)",
    re.DOTALL,
)
_BETWEEN = re.compile(r"&&|\|\||[;|&\n]")


@frozen()
class Rule:
    """One line of a layer."""

    text: str
    """As it was written."""
    tool: str
    """A name or a glob of names; tools of servers also go by `mcp_` and their name."""
    subject: str | None
    """A glob of what the tool is called with; None: whatever it is."""
    verdict: Verdict

    @property
    def weight(self) -> tuple[bool, int, int, int]:
        """The more specific rule is the greater one; of two equal ones the stricter."""
        letters = len(self.tool) - len(re.findall(r"[*?]", self.tool))
        more = 0 if self.subject is None else len(re.sub(r"[*?]", "", self.subject))
        return (self.subject is not None, letters, more, _STRICTNESS[self.verdict])

    def names(self, tool: Tool) -> bool:
        """Whether it is about this tool."""
        aliases = (tool.name, f"mcp_{tool.name}") if tool.source == "mcp" else (tool.name,)
        return any(fnmatchcase(alias, self.tool) for alias in aliases)


@frozen()
class Rules:
    """One layer of rules."""

    rules: tuple[Rule, ...] = ()
    where: str = ""
    """Whose they are, for the text of a refusal."""

    @classmethod
    def of(cls, spec: Any, where: str) -> Rules:
        """The rules that a mapping `{"bash(git *)": "allow", "write": "ask"}` writes down.

        Raises `ConfigError` that names the wrong line.
        """
        if spec is None:
            return cls()
        if not isinstance(spec, Mapping):
            raise ConfigError(f"{where}: {spec!r}; give a mapping such as {{'bash': 'ask', 'write': 'deny'}}")
        rules: list[Rule] = []
        for text, verdict in cast("Mapping[Any, Any]", spec).items():
            match = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
            if match is None:
                raise ConfigError(f"{where}: {text!r} {NO_RULE}")
            if not isinstance(cast("object", verdict), str) or verdict not in _STRICTNESS:
                raise ConfigError(f"{where}: {text!r} is {verdict!r}; allowed are {list(_STRICTNESS)}")
            rules.append(Rule(text, match["tool"], match["subject"], verdict))
        return cls(tuple(rules), where)

    def absent(self, names: Collection[str]) -> list[Rule]:
        """The rules about a tool by a name that is none of `names`."""
        known = {*names, *(f"mcp_{name}" for name in names)}
        return [rule for rule in self.rules if not re.search(r"[*?\[]", rule.tool) and rule.tool not in known]

    def denies(self, tool: Tool) -> bool:
        """Whether no call of the tool can pass, so that it need not be offered."""
        about = [rule for rule in self.rules if rule.names(tool)]
        if any(rule.subject is not None and rule.verdict != "deny" for rule in about):
            return False
        general = [rule for rule in about if rule.subject is None]
        return bool(general) and max(general, key=lambda rule: rule.weight).verdict == "deny"

    def denies_skill(self, name: str) -> bool:
        """Whether the skill cannot be loaded."""
        return self._of_subject("skill", name) == "deny"

    def denies_agent(self, name: str) -> bool:
        """Whether nobody may delegate to that agent."""
        return self._of_subject("task", name) == "deny"

    def decide(self, tool: Tool, arguments: Mapping[str, Any], root: Path) -> Rule | None:
        """The rule that holds for this call; None when no rule is about it. `root`: of relative paths.

        Of a command that runs several programs the strictest rule of all holds; one that cannot be
        taken apart for sure passes by no rule that allows by pattern.
        """
        about = [rule for rule in self.rules if rule.names(tool)]
        if not about:
            return None
        found: list[Rule] = []
        if tool.name == "bash" and tool.source == "builtin":
            line = str(arguments.get("command", ""))
            parts, sure = commands(line)
            patterns = [rule for rule in about if rule.subject is not None]
            wide = [_best(patterns, program, sure=True) for program in programs(line)]
            found = [rule for rule in wide if rule is not None and rule.verdict != "allow"]
        else:
            parts, sure = subjects(tool, arguments, root), True
        found += [rule for part in parts if (rule := _best(about, part, sure)) is not None]
        return max(found, key=lambda rule: _STRICTNESS[rule.verdict]) if found else None

    def _of_subject(self, tool: str, subject: str) -> Verdict | None:
        about = [rule for rule in self.rules if fnmatchcase(tool, rule.tool)]
        rule = _best(about, subject, sure=True)
        return None if rule is None else rule.verdict


def _best(about: Sequence[Rule], subject: str, sure: bool) -> Rule | None:
    found = [
        rule
        for rule in about
        if rule.subject is None or (fnmatchcase(subject, rule.subject) and (sure or rule.verdict != "allow"))
    ]
    return max(found, key=lambda rule: rule.weight, default=None)


def is_rule(text: str) -> bool:
    """Whether a layer may hold it."""
    return _RULE.fullmatch(text.strip()) is not None


def strictest(
    layers: Sequence[Permissions], tool: Tool, arguments: Mapping[str, Any], root: Path
) -> tuple[Ruling, str] | None:
    """The rule that holds over all layers, and whose it is; None: nobody says anything."""
    decided = [(layer.decide(tool, arguments, root), layer.where) for layer in layers]
    found = [(rule, where) for rule, where in decided if rule is not None]
    return max(found, key=lambda pair: _STRICTNESS[pair[0].verdict], default=None)


def subjects(tool: Tool, arguments: Mapping[str, Any], root: Path) -> list[str]:
    """What a pattern is compared with: the telling argument of a builtin, else all arguments as JSON."""
    if tool.name == "apply_patch" and isinstance(text := arguments.get("patchText"), str):
        return [_plain(path, root) for path in _PATCHED.findall(text)] or [""]
    key = _SUBJECT.get(tool.name) if tool.source in ("builtin", "skill") else None
    if key is not None:
        subject = str(arguments.get(key, "."))
        return [_plain(subject, root) if key == "path" else _address(subject) if key == "url" else subject]
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if len(arguments) == 1 and texts:
        return texts
    return [json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)]


def _plain(path: str, root: Path) -> str:
    """A path in the one spelling that patterns are written in: relative to the root where it lies in it."""
    whole = os.path.normpath(os.path.join(root, path))
    inside = os.path.relpath(whole, root)
    return whole if inside.startswith("..") else inside.replace(os.sep, "/")


def _address(url: str) -> str:
    """An address in the one spelling that patterns are written in: no user, scheme and host in lower case."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    host = parts.netloc.rpartition("@")[2].lower()
    return parts._replace(scheme=parts.scheme.lower(), netloc=host).geturl()


def programs(line: str) -> Iterator[str]:
    """What a command line may run, read in the widest way: inside groups and expansions, behind variables
    and words that run others, without quotes and folder. It can only narrow what is allowed."""
    plain = _QUOTED.sub(lambda match: "x" * len(match[0]), line)
    start = 0
    for end in [*[match.start() for match in _AROUND.finditer(plain)], len(line)]:
        words = re.sub(r"[\\'\"]", "", line[start:end]).split()
        while words and _BEFORE.fullmatch(words[0]):
            del words[0]
        if words:
            yield " ".join([words[0].rpartition("/")[2], *words[1:]])
        start = end + 1


def commands(line: str) -> tuple[list[str], bool]:
    """The programs that a command line runs, and whether that is for sure.

    Expansions, redirections, groups, functions and commands that run others are not taken apart.
    """
    plain = _QUOTED.sub(lambda match: "x" * len(match[0]), line)
    sure = _UNREADABLE.search(plain) is None
    return [part for part in _pieces(line, plain) if part] or [line.strip()], sure


def _pieces(line: str, plain: str) -> Iterator[str]:
    start = 0
    for match in _BETWEEN.finditer(plain):
        yield line[start : match.start()].strip()
        start = match.end()
    yield line[start:].strip()
