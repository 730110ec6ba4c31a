"""The scripted model of the demo: it plays three roles and knows nothing but the tool results.

Paths, line numbers and code in its answers come out of what the tools gave in this run; in a program
without the mistake it finds none.
"""

from __future__ import annotations

import asyncio
import re

from toolnexus.cli.demo.rules import LIMIT_PATTERN, Finding, judge, judge_file, rules
from toolnexus.cli.demo.transcript import Transcript
from toolnexus.core.messages import Message, assistant
from toolnexus.core.model import ModelRequest
from toolnexus.models.function import FunctionModel

THINK = 0.3
"""Seconds of artificial thinking in each turn, so that there is something to see."""

REPORT = "REPORT.md"
NOTHING = "No comparison goes against the words about its limit."
_PLACE = re.compile(r"[\w/.-]+\.py[\w.]*:\d+")


def scripted_model(think: float = THINK) -> FunctionModel:
    """A model that plays main, explore and review by what it reads, `think` seconds a turn."""
    roles = {"explore": explore, "review": review}

    async def answer(request: ModelRequest) -> Message:
        await asyncio.sleep(think)
        return roles.get(request.agent, lead)(Transcript(request.messages))

    return FunctionModel(answer, name="scripted")


def lead(seen: Transcript) -> Message:
    """Split the goal in two, delegate both at once, and put the answers together."""
    if not seen.calls:
        goal = f"The whole goal: {seen.prompt}"
        search = (
            f"{goal}\nYour part: find the place. Search, confirm it in the file, answer with path and line."
        )
        check = f"{goal}\nYour part: review every module by the rules of the house, then write {REPORT}."
        return assistant(
            "This splits into a search and a review, which do not need each other.",
            seen.call("task", agent="explore", prompt=search),
            seen.call("task", agent="review", prompt=check),
        )
    lines: list[str] = []
    places: list[set[str]] = []
    for call in seen.of("task"):
        if call.failed:
            why = call.output.splitlines()[0].removesuffix(" Its text so far:")
            lines.append(f"{call.arguments['agent']} gave no answer: {why}")
        else:
            places.append(set(_PLACE.findall(call.output)))
            lines.append(f"{call.arguments['agent']}: {call.output}")
    both = set[str].intersection(*places) if places else set[str]()
    if both and len(places) > 1:
        lines.insert(0, f"The bug is in {', '.join(sorted(both))}: two agents found it in different ways.")
    elif both:
        lines.insert(0, f"The bug is in {', '.join(sorted(both))}, by the word of one agent.")
    else:
        lines.insert(0, "The bug was not found.")
    return assistant("\n".join(lines))


def explore(seen: Transcript) -> Message:
    """List the files, search for comparisons, hold them against the documents, confirm in the file."""
    listing = seen.text("files_list")
    if listing is None:
        if seen.tries("files_list") > 1:
            return assistant("The files could not be listed.")
        return assistant("", seen.call("files_list"))
    documents = [path for path in listing.splitlines() if path.endswith(".md") and "/" not in path]
    hits = seen.text("grep")
    unread = [p for p in documents if not _given(seen, p)]
    if hits is None or unread:
        wanted = [] if hits is not None else [seen.call("grep", pattern=LIMIT_PATTERN, include="*.py")]
        return assistant("", *wanted, *[seen.call("files_read", path=path) for path in unread])
    known = rules("\n".join(seen.text("files_read", path=path) or "" for path in documents))
    found: list[Finding] = []
    for hit in hits.splitlines():
        path, _, rest = hit.partition(":")
        number, _, code = rest.partition(":")
        if number.isdigit() and (finding := judge(path, int(number), code, known)) is not None:
            found.append(finding)
    if not found:
        return assistant(NOTHING)
    if unconfirmed := [f.path for f in found if not _given(seen, f.path)]:
        return assistant("", *[seen.call("files_read", path=path) for path in dict.fromkeys(unconfirmed)])
    return assistant("\n".join(_confirmed(seen, finding) for finding in found))


def _given(seen: Transcript, path: str) -> bool:
    """Whether a file was read, or refused so often that it is not asked for again."""
    return seen.text("files_read", path=path) is not None or seen.tries("files_read", path=path) > 1


def _confirmed(seen: Transcript, finding: Finding) -> str:
    text = seen.text("files_read", path=finding.path)
    if text is None:
        seal = "not confirmed, the file could not be read"
    elif f"{finding.line}: {finding.code}" in [" ".join(line.split()) for line in text.splitlines()]:
        seal = "confirmed in the file"
    else:
        seal = "not confirmed, the file says otherwise"
    return f"{finding.place} has `{finding.code}` where the README says {_words(finding)} ({seal})."


def review(seen: Transcript) -> Message:
    """Load the skill, read what it says, judge every module, write the report."""
    skill = seen.text("skill")
    if skill is None:
        if seen.calls:
            return assistant("The skill could not be loaded.")
        return assistant("", seen.call("skill", name="boundary-review"))
    rulebook = seen.text("read", path="README.md")
    if rulebook is None:
        if seen.of("read"):
            return assistant("The rules of the house could not be read.")
        return assistant("", seen.call("read", path="README.md"))
    modules = list(dict.fromkeys(re.findall(r"`(\w+/\w+\.py)`", rulebook)))
    if unread := [path for path in modules if not seen.tries("read", path=path)]:
        return assistant("", *[seen.call("read", path=path) for path in unread])
    known = rules(rulebook)
    texts = {path: seen.text("read", path=path) or "" for path in modules}
    found = [finding for path, text in texts.items() for finding in judge_file(path, text, known)]
    if not found:
        return assistant(NOTHING)
    written = seen.of("write")
    if not written:
        return assistant("", seen.call("write", path=REPORT, content=report(found, len(modules))))
    account = f"not in {REPORT} ({written[0].output})" if written[0].failed else f"the report is in {REPORT}"
    lines = [f"{f.place} leaves out {f.name} itself, it should be `{f.repaired}`" for f in found]
    return assistant(f"{'; '.join(lines)}; {len(modules)} modules read, {account}.")


def report(found: list[Finding], modules: int) -> str:
    """The report file."""
    parts = ["# A mistake at a boundary", ""]
    for f in found:
        parts += [
            f"`{f.place}` goes against the rule {_words(f)}.",
            "",
            f"    is:         {f.code}",
            f"    should be:  {f.repaired}",
            "",
            f"A value of exactly `{f.name}` gets the wrong answer; every other value gets the right one.",
            "",
        ]
    parts.append(f"Read: {modules} modules, by the skill `boundary-review`.")
    return "\n".join(parts) + "\n"


def _words(finding: Finding) -> str:
    tail = " upward" if finding.words == "from" else ""
    return f'"{finding.words} `{finding.name}`{tail}"'
