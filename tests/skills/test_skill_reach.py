"""What a skill lets a model reach, and what the disk and foreign code can do to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.skills.helpers import call, opened, reasons, write_skill
from toolnexus import Agent, Client, ToolError
from toolnexus.core.result import RunResult
from toolnexus.testing import ScriptedModel, reply
from toolnexus.testing import call as use
from toolnexus.tools.skills import SkillDef, load_skills, skill_source, source, walk

pytestmark = pytest.mark.anyio


def outcomes(result: RunResult) -> list[tuple[str, bool]]:
    """Text and error flag of every tool result in a transcript."""
    return [(part.output, part.is_error) for message in result.messages for part in message.tool_results]


async def asked(tmp_path: Path, *calls: Any, **options: Any) -> list[tuple[str, bool]]:
    """The outcomes of these calls, one a turn, in a client whose working folder is `tmp_path/work`."""
    (tmp_path / "work").mkdir(exist_ok=True)
    model = ScriptedModel([*[reply(one) for one in calls], "end"])
    async with asyncio.timeout(30), Client(model=model, workdir=tmp_path / "work", **options) as client:
        return outcomes(await client.ask("go"))


async def test_the_files_of_a_skill_can_be_read_from_outside_the_working_folder(tmp_path: Path) -> None:
    """[SK-39] `read`, `grep` and `glob` reach what the skill lists; nothing beside the skill, no writing."""
    folder = write_skill(tmp_path / "skills" / "pdf", reference__forms_md="Fields are blue.\n")
    (tmp_path / "skills" / "private.md").write_text("beside")
    read, found, listed, beside, above, written = await asked(
        tmp_path,
        use("read", path=f"{folder}/reference/forms.md"),
        use("grep", pattern="blue", path=str(folder)),
        use("glob", pattern="**/*.md", path=str(folder)),
        use("read", path=str(tmp_path / "skills" / "private.md")),
        use("read", path=f"{folder}/../private.md"),
        use("write", path=f"{folder}/reference/forms.md", content="mine"),
        skills=tmp_path / "skills",
        builtins=["read", "grep", "glob", "write"],
    )
    assert read == ("Fields are blue.\n", False)
    assert "Fields are blue." in found[0] and "forms.md" in listed[0]
    assert all(failed and "lies outside" in text for text, failed in (beside, above, written))


async def test_a_link_in_a_skill_leads_nowhere_outside(tmp_path: Path) -> None:
    """[SK-39] A file and a folder behind links that leave the skill are neither listed nor read."""
    secret = tmp_path / "elsewhere" / "secret.md"
    secret.parent.mkdir()
    secret.write_text("secret")
    folder = write_skill(tmp_path / "skills" / "pdf", inside_md="inside")
    (folder / "out.md").symlink_to(secret)
    (folder / "out").symlink_to(secret.parent)
    (folder / "near.md").symlink_to(folder / "inside.md")
    skill, file, through, near = await asked(
        tmp_path,
        use("skill", name="pdf"),
        use("read", path=f"{folder}/out.md"),
        use("read", path=f"{folder}/out/secret.md"),
        use("read", path=f"{folder}/near.md"),
        skills=tmp_path / "skills",
        builtins=["read"],
    )
    listed = skill[0].split("<skill_files>\n")[1]
    assert listed.startswith(
        f"<file>{folder}/inside.md</file>\n<file>{folder}/near.md</file>\n</skill_files>"
    )
    assert all(failed and "lies outside" in text for text, failed in (file, through))
    assert near == ("inside", False)


@pytest.mark.parametrize("what", ["SKILL.md", "."])
async def test_a_skill_that_became_a_link_is_refused(tmp_path: Path, what: str) -> None:
    """[SK-39] Who may write in a skill folder must not read the rest of the disk through the tool."""
    folder = write_skill(tmp_path / "skills" / "pdf")
    victim = write_skill(tmp_path / "elsewhere", "name: pdf\ndescription: d", "secret", key_pem="x")
    skills = await opened(skill_source(tmp_path / "skills"))
    assert skills.roots == (folder,)
    (folder / "SKILL.md").unlink()
    if what == ".":
        folder.rmdir()
        folder.symlink_to(victim)
    else:
        (folder / "SKILL.md").symlink_to(victim / "SKILL.md")
    with pytest.raises(ToolError, match="'pdf' can no longer be read: it leads elsewhere") as caught:
        await call(skills, "pdf")
    assert "secret" not in str(caught.value)
    assert skills.roots == (folder,), "what file tools may read was settled when it was loaded"


async def test_a_skill_file_that_was_a_link_when_it_was_loaded_keeps_working(tmp_path: Path) -> None:
    """[SK-39] [SK-10] Managers of dotfiles link single files: what the host gave is what is read."""
    real = write_skill(tmp_path / "store", "name: pdf\ndescription: d", "first")
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "skills" / "pdf" / "SKILL.md").symlink_to(real / "SKILL.md")
    skills = await opened(skill_source(tmp_path / "skills"))
    assert "first" in (await call(skills, "pdf")).output
    write_skill(real, "name: pdf\ndescription: d", "second")
    assert "second" in (await call(skills, "pdf")).output
    assert skills.roots == (tmp_path / "skills" / "pdf",)


@pytest.mark.parametrize("builtins", [["read"], {"bash": False, "write": False}])
async def test_allowed_tools_of_a_skill_allow_nothing(tmp_path: Path, builtins: Any) -> None:
    """[SK-38] [SK-06] A tool that was left out or dropped stays so after the skill was loaded."""
    write_skill(tmp_path / "skills" / "pdf", "name: pdf\ndescription: d\nallowed-tools: bash write read")
    calls = (use("skill", name="pdf"), use("bash", command="id"), use("write", path="a", content="x"))
    skill, bash, write = await asked(tmp_path, *calls, skills=tmp_path / "skills", builtins=builtins)
    assert "# Skill: pdf" in skill[0] and not skill[1]
    assert bash[1] and "bash" in bash[0] and "uid=" not in bash[0]
    assert write[1] and not (tmp_path / "work" / "a").exists()
    (loaded,), _ = load_skills(tmp_path / "skills")
    assert loaded.allowed_tools == ("bash", "write", "read")


async def test_allowed_tools_allow_nothing_to_a_sub_agent(tmp_path: Path) -> None:
    """[SK-38] An agent with one skill and no other tool gets no tool from it."""
    write_skill(tmp_path / "skills" / "pdf", "name: pdf\ndescription: d\nallowed-tools: read")
    (tmp_path / "secret.md").write_text("secret")
    child = [reply(use("skill", name="pdf")), reply(use("read", path="secret.md")), "end"]
    model = ScriptedModel(
        by_path={"main": [reply(use("task", agent="a", prompt="p")), "end"], "main/*": child}
    )
    agent = Agent(name="a", description="d", tools=["skill"])
    options: dict[str, Any] = {
        "workdir": tmp_path,
        "skills": tmp_path / "skills",
        "builtins": ["read", "task"],
    }
    async with asyncio.timeout(30), Client(model=model, agents=[agent], **options) as client:
        (sub,) = (await client.ask("go")).sub_agents
    skill, read = outcomes(sub)
    assert "# Skill: pdf" in skill[0]
    assert read[1] and "secret" not in read[0].replace("secret.md", "")


async def test_a_pipe_beside_a_skill_is_neither_listed_nor_waited_for(tmp_path: Path) -> None:
    """[SK-40] Listing, loading and reading end at once with a FIFO that nobody writes to."""
    folder = write_skill(tmp_path / "skills" / "pdf", a_md="x")
    os.mkfifo(folder / "b.md")
    skill, read = await asked(
        tmp_path,
        use("skill", name="pdf"),
        use("read", path=f"{folder}/b.md"),
        skills=tmp_path / "skills",
        builtins=["read"],
    )
    assert "a.md</file>\n</skill_files>" in skill[0]
    assert read[1] and "FIFO" in read[0]


class Disk:
    """The real `os.scandir`, watched: which thread asks, and whether one folder gives no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hangs: Path | None = None) -> None:
        self.threads: set[int] = set()
        self.free = threading.Event()
        real = os.scandir

        def scandir(path: str) -> Any:
            self.threads.add(threading.get_ident())
            if hangs is not None and Path(path) == hangs:
                self.free.wait(30)
            return real(path)

        monkeypatch.setattr(walk.os, "scandir", scandir)


async def test_files_of_skills_are_read_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[SK-40] Loading and calling look at the disk from other threads than the loop's."""
    disk = Disk(monkeypatch)
    write_skill(tmp_path / "pdf", a_md="x")
    skills = await opened(skill_source(tmp_path))
    await call(skills, "pdf")
    assert disk.threads and threading.get_ident() not in disk.threads


async def test_a_folder_whose_disk_hangs_costs_its_own_skills_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[SK-40] It is reported when its time is up; the other folders are there, and calls go on."""
    write_skill(tmp_path / "bad" / "a")
    write_skill(tmp_path / "good" / "b")
    disk = Disk(monkeypatch, hangs=tmp_path / "bad" / "a")
    monkeypatch.setattr(source, "SECONDS", 0.1)
    monkeypatch.setattr(source, "_GRACE", 0.1)
    try:
        async with asyncio.timeout(10):
            skills = await opened(skill_source([tmp_path / "bad", tmp_path / "good"]))
            assert skills.skill_set.names == ["b"]
            (entry,) = skills.report
            assert (entry["path"], entry["reason"]) == (str(tmp_path / "bad"), "unreadable")
            assert "0.1 s" in entry["detail"]
            assert "# Skill: b" in (await call(skills, "b")).output
    finally:
        disk.free.set()


async def test_a_call_to_a_skill_whose_disk_hangs_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[SK-40] It is a tool error that says so, not a run that stands still."""
    folder = write_skill(tmp_path / "pdf")
    skills = await opened(skill_source(tmp_path))
    disk = Disk(monkeypatch, hangs=folder)
    monkeypatch.setattr(source, "_CALL_SECONDS", 0.1)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(ToolError, match=r"'pdf' can no longer be read: .*0.1 s.*disk"):
                await call(skills, "pdf")
    finally:
        disk.free.set()


async def test_a_search_that_takes_too_long_ends_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[SK-40] A folder that is far too big (a whole disk, say): what was found until then, and an entry."""
    write_skill(tmp_path / "a")
    monkeypatch.setattr(source, "SECONDS", 0.0)
    skills = await opened(skill_source([tmp_path, SkillDef(name="b", content="x")]))
    assert skills.skill_set.names == ["b"]
    assert reasons(skills.report) == ["unreadable", "no-skills"]
    assert "stopped after 0 s" in skills.report[0]["detail"]


async def test_a_provider_that_gives_no_answer_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SK-41] An async one and one that blocks: each is reported by its name when its time is up."""
    free = threading.Event()

    async def never() -> list[SkillDef]:
        await asyncio.Event().wait()
        return []

    def blocks() -> list[SkillDef]:
        free.wait(30)
        return []

    monkeypatch.setattr(source, "SECONDS", 0.1)
    try:
        async with asyncio.timeout(10):
            skills = await opened(skill_source([never, blocks, SkillDef(name="a", content="x")]))
    finally:
        free.set()
    assert skills.skill_set.names == ["a"]
    assert [(e["path"].rpartition(".")[2], e["reason"]) for e in skills.report] == [
        ("never", "unreadable"),
        ("blocks", "unreadable"),
    ]
    assert all("no skills within 0.1 s" in entry["detail"] for entry in skills.report)


async def test_a_provider_without_end_or_of_another_kind_is_reported() -> None:
    """[SK-41] The first ten thousand are taken; what is no SkillDef is named by its type."""

    def endless() -> Iterator[SkillDef]:
        return (SkillDef(name=f"s{n}", content="x") for n in count())

    def others() -> Any:
        return [{"name": "x"}, "text", SkillDef(name="good", content="x")]

    def nothing() -> Any:
        return None

    skills = await opened(skill_source([others, nothing, endless]))
    assert len(skills.skill_set.names) == 10_001
    assert [entry["detail"].rpartition("not ")[2] for entry in skills.report[:2]] == ["dict", "str"]
    assert "TypeError" in skills.report[2]["detail"]
    assert "only the first 10000" in skills.report[3]["detail"]


async def test_loading_again_and_calling_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """[SK-40] Fifty calls while the folder is written to and the source is opened again."""
    folder = write_skill(tmp_path / "pdf")
    skills = await opened(skill_source(tmp_path))
    tool = skills.tools[0]

    async def load() -> str:
        result = await tool.execute({"name": "pdf"}, None)
        return str(result.output)

    async def churn() -> str:
        for n in range(20):
            (folder / f"f{n}.md").write_text("x")
            await opened(skills)
        return "</skill_content>"

    async with asyncio.timeout(30):
        texts = await asyncio.gather(churn(), *(load() for _ in range(50)))
    assert all(text.endswith("</skill_content>") for text in texts)


async def test_the_files_of_a_skill_that_an_agent_may_not_load_are_out_of_its_reach(tmp_path: Path) -> None:
    """[SK-43] What the filter takes from an agent it cannot read by path either; what it keeps, it can."""
    closed = write_skill(tmp_path / "skills" / "closed", reference__a_md="hidden words")
    opened_one = write_skill(tmp_path / "skills" / "open", reference__a_md="shown words")
    reads = [use("read", path=f"{folder}/reference/a.md") for folder in (closed, opened_one)]
    agent = Agent(name="x", description="X.", tools={"skills": {"closed": False}})
    (tmp_path / "work").mkdir()
    async with (
        asyncio.timeout(30),
        Client(
            model=ScriptedModel([reply("", *reads), "end"]),
            skills=tmp_path / "skills",
            builtins=["read"],
            agents=[agent],
            workdir=tmp_path / "work",
        ) as client,
    ):
        (hidden, refused), (shown, failed) = outcomes(await client.run("x", "go"))
    assert refused and "lies outside" in hidden
    assert (shown, failed) == ("shown words", False)


@pytest.mark.parametrize("way", ["agent", "filter"])
async def test_a_skill_inside_another_one_has_its_files_for_itself(way: str, tmp_path: Path) -> None:
    """[SK-43] A skill that lies in one that may be loaded is closed all the same, to read, grep and glob."""
    outer = write_skill(tmp_path / "skills" / "outer", a_md="words of the outer one")
    inner = write_skill(outer / "inner", reference__a_md="words of the inner one")
    innermost = write_skill(inner / "innermost", a_md="words of the innermost one")
    tools = [
        *(use("read", path=f"{folder}/a.md") for folder in (outer, inner / "reference", innermost)),
        use("grep", pattern="words", path=str(outer)),
        use("glob", pattern="**/*.md", path=str(outer)),
        use("glob", pattern="*", path=str(inner)),
        use("skill", name="outer"),
    ]
    chosen = ["outer", "innermost"]
    (tmp_path / "work").mkdir()
    async with (
        asyncio.timeout(30),
        Client(
            model=ScriptedModel([reply("", *tools), "end"]),
            skills=tmp_path / "skills"
            if way == "agent"
            else {"paths": tmp_path / "skills", "filter": chosen},
            builtins=["read", "grep", "glob"],
            agents=[Agent(name="x", description="X.", tools={"skills": chosen} if way == "agent" else None)],
            workdir=tmp_path / "work",
        ) as client,
    ):
        ends = outcomes(await client.run("x", "go"))
    (shown, _), (hidden, refused), (deep, _), (hits, _), (listed, _), (_, closed), (skill, _) = ends
    assert (shown, deep) == ("words of the outer one", "words of the innermost one")
    assert refused and closed and "lies outside" in hidden
    assert hits == f"{outer}/a.md:1:words of the outer one"
    assert listed.split("\n") == [f"{outer}/SKILL.md", f"{outer}/a.md"]
    assert f"<file>{outer}/a.md</file>" in skill and "inner" not in skill
