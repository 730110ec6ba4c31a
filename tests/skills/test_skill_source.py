"""The `skill` tool, its catalog and its views."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.skills.helpers import call, opened, reasons, write_skill
from toolnexus.errors import ConfigError, ToolError
from toolnexus.tools.skills import SkillDef, SkillSource, skill_source
from toolnexus.tools.source import ToolSource

pytestmark = pytest.mark.anyio


async def test_the_output_of_a_folder_skill_is_byte_exact(tmp_path: Path) -> None:
    """[SK-20] Header, trimmed body, base URL, the two notes, the files, in exactly this form."""
    folder = write_skill(
        tmp_path / "sp ace" / "pdf",
        body="\n\n# Steps\r\n\r\n1. Run `scripts/run.sh`.\r\n\r\n",
        scripts__run_sh="x",
        reference_md="x",
    )
    source = await opened(skill_source(tmp_path))
    result = await call(source, "pdf")
    assert result.output == (
        '<skill_content name="pdf">\n'
        "# Skill: pdf\n"
        "\n"
        "# Steps\n"
        "\n"
        "1. Run `scripts/run.sh`.\n"
        "\n"
        f"Base directory for this skill: file://{tmp_path}/sp%20ace/pdf\n"
        "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n"
        "Note: file list is sampled.\n"
        "\n"
        "<skill_files>\n"
        f"<file>{folder}/reference.md</file>\n"
        f"<file>{folder}/scripts/run.sh</file>\n"
        "</skill_files>\n"
        "</skill_content>"
    )
    assert not result.is_error
    assert result.metadata == {"name": "pdf", "dir": str(folder)}


async def test_without_files_the_note_and_the_block_are_left_out(tmp_path: Path) -> None:
    """[SK-21] No sibling file, or a sample limit of -1: the list and its note are not there."""
    write_skill(tmp_path / "bare")
    write_skill(tmp_path / "full", a_txt="x")
    source = await opened(skill_source({"paths": [tmp_path], "sample_limit": -1}))
    for name in ("bare", "full"):
        assert (await call(source, name)).output == (
            f'<skill_content name="{name}">\n# Skill: {name}\n\nDo it.\n\n'
            f"Base directory for this skill: file://{tmp_path}/{name}\n"
            "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n"
            "</skill_content>"
        )


async def test_special_characters_of_a_folder_are_percent_encoded_in_the_url(tmp_path: Path) -> None:
    """[SK-20] The URL of the base folder is a valid one; the file lines are plain paths."""
    folder = write_skill(tmp_path / "100% é#?" / "pdf", a_txt="x")
    output = (await call(await opened(skill_source(tmp_path)), "pdf")).output
    assert f"skill: file://{tmp_path}/100%25%20%C3%A9%23%3F/pdf\n" in output
    assert f"<file>{folder}/a.txt</file>" in output


async def test_a_skill_given_as_data_has_a_logical_base_and_its_own_resources() -> None:
    """[SK-22] `skill://name/` unless a base is given; resources in the order given, cut at the limit."""
    plain = SkillDef(name="pdf", content="  Do it. ", description="d", resources=["z.md", "a.md", "m.md"])
    based = SkillDef(name="csv", content="x", base="https://example.com/s/")
    source = await opened(skill_source({"paths": [plain, based], "sample_limit": 2}))
    result = await call(source, "pdf")
    assert result.output == (
        '<skill_content name="pdf">\n# Skill: pdf\n\nDo it.\n\n'
        "Base directory for this skill: skill://pdf/\n"
        "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n"
        "Note: file list is sampled.\n\n"
        "<skill_files>\n<file>z.md</file>\n<file>a.md</file>\n</skill_files>\n</skill_content>"
    )
    assert result.metadata["dir"] == "skill://pdf/"
    assert "Base directory for this skill: https://example.com/s/\n" in (await call(source, "csv")).output
    assert source.roots == ()


async def test_the_source_offers_one_tool_with_a_name(tmp_path: Path) -> None:
    """[SK-23] A tool source called `skills` with the one tool `skill{name*}`, closed schema."""
    write_skill(tmp_path / "pdf")
    source = skill_source(tmp_path)
    assert isinstance(source, ToolSource)
    assert list(source.tools) == []
    await opened(source)
    (tool,) = source.tools
    assert (source.name, tool.name, tool.source) == ("skills", "skill", "skill")
    assert tool.input_schema["required"] == ["name"]
    assert tool.input_schema["additionalProperties"] is False
    assert list(tool.input_schema["properties"]) == ["name"]
    assert source.tools[0] is tool, "the same object from turn to turn"
    await source.aclose()
    await source.aclose()
    assert list(source.tools) == []
    assert source.catalog() == ""


async def test_an_unknown_skill_is_a_tool_error_with_the_names_and_the_nearest(tmp_path: Path) -> None:
    """[SK-24] The model sees what there is and what it may have meant."""
    for name in ("pdf-forms", "csv"):
        write_skill(tmp_path / name)
    source = await opened(skill_source(tmp_path))
    with pytest.raises(ToolError) as caught:
        await call(source, "pdf-form")
    assert str(caught.value) == (
        "unknown skill 'pdf-form'; available: ['csv', 'pdf-forms']; did you mean 'pdf-forms'?"
    )


async def test_the_catalog_has_a_preamble_of_two_lines_and_a_sorted_list(tmp_path: Path) -> None:
    """[SK-25] `- **name**: description`, sorted by name, one line each."""
    write_skill(tmp_path / "pdf", "name: pdf\ndescription: |\n  About\n  PDFs.")
    write_skill(tmp_path / "csv")
    source = await opened(
        skill_source([tmp_path, SkillDef(name="Zip", content="", description="About zip.")])
    )
    lines = source.catalog().split("\n")
    assert all(lines[:2])
    assert lines[2:] == [
        "",
        "## Available Skills",
        "- **Zip**: About zip.",
        "- **csv**: About csv.",
        "- **pdf**: About PDFs.",
    ]
    assert source.catalog(["csv"]).split("\n")[3:] == ["## Available Skills", "- **csv**: About csv."]


async def test_a_catalog_with_nothing_to_list_is_empty(tmp_path: Path) -> None:
    """[SK-26] No skills, or none with a description: nothing is added to the system prompt."""
    write_skill(tmp_path / "silent", "name: silent")
    source = await opened(skill_source(tmp_path))
    assert source.catalog() == ""
    assert source.catalog([]) == ""
    assert "# Skill: silent" in (await call(source, "silent")).output, "loadable by name all the same"


async def test_a_source_without_skills_offers_no_tool(tmp_path: Path) -> None:
    """[SK-26] With nothing to load the tool is not there."""
    source = await opened(skill_source(tmp_path))
    assert list(source.tools) == []


async def test_a_view_hands_out_only_its_own_skills(tmp_path: Path) -> None:
    """[SK-27] Tool, catalog, error text and readable folders of a view know nothing else."""
    for name in ("pdf", "csv", "secret"):
        write_skill(tmp_path / name)
    source = await opened(skill_source(tmp_path))
    for view in (
        source.view(["pdf", "csv"]),
        source.view(lambda name: name != "secret"),
        source.view(["[pc]*"]),
    ):
        assert view.names == ["csv", "pdf"]
        assert "# Skill: pdf" in (await call(view, "pdf")).output
        with pytest.raises(ToolError) as caught:
            await call(view, "secret")
        assert str(caught.value) == "unknown skill 'secret'; available: ['csv', 'pdf']"
        assert "secret" not in view.catalog()
        assert view.roots == (tmp_path / "csv", tmp_path / "pdf")
    assert source.view([]).tools == ()
    assert "# Skill: secret" in (await call(source, "secret")).output


async def test_a_view_of_an_unknown_name_is_a_config_error(tmp_path: Path) -> None:
    """[SK-27] A name that does not exist is named, with the nearest."""
    write_skill(tmp_path / "pdf")
    source = await opened(skill_source(tmp_path))
    with pytest.raises(ConfigError, match=r"'pfd'.*'pdf'"):
        source.view(["pfd"])


async def test_the_readable_folders_are_those_of_the_skills_with_links_resolved(tmp_path: Path) -> None:
    """[SK-28] `roots` are the real skill folders, not whatever lies beside them."""
    real = write_skill(tmp_path / "elsewhere" / "pdf")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pdf").symlink_to(real)
    write_skill(tmp_path / "root" / "csv")
    source = await opened(skill_source(tmp_path / "root"))
    assert set(source.roots) == {real, tmp_path / "root" / "csv"}


async def test_an_edit_on_disk_shows_at_the_next_call(tmp_path: Path) -> None:
    """[SK-29] Body and files are read at each call; which skills there are stays until it reopens."""
    folder = write_skill(tmp_path / "pdf")
    source = await opened(skill_source(tmp_path))
    write_skill(folder, "name: renamed\ndescription: other", "New text.", new_txt="x")
    write_skill(tmp_path / "later")
    output = (await call(source, "pdf")).output
    assert output.startswith('<skill_content name="pdf">\n# Skill: pdf\n\nNew text.\n')
    assert f"<file>{folder}/new.txt</file>" in output
    assert "About pdf." in source.catalog()
    assert "later" not in source.catalog()
    await source.aclose()
    await opened(source)
    assert "- **renamed**: other" in source.catalog()


async def test_a_skill_whose_file_is_gone_is_a_tool_error(tmp_path: Path) -> None:
    """[SK-29] What vanished or broke since is told to the model, not raised into the run."""
    folder = write_skill(tmp_path / "pdf")
    source = await opened(skill_source(tmp_path))
    (folder / "SKILL.md").write_text("---\nname: open")
    with pytest.raises(ToolError, match=r"'pdf' can no longer be read: .*closing"):
        await call(source, "pdf")
    (folder / "SKILL.md").unlink()
    with pytest.raises(ToolError, match="'pdf' can no longer be read"):
        await call(source, "pdf")


async def test_folders_come_before_data_and_the_first_name_wins(tmp_path: Path) -> None:
    """[SK-30] Folders, then data and providers in their order; the shadowed are reported."""
    write_skill(tmp_path / "pdf", body="from disk")

    async def later() -> list[SkillDef]:
        return [SkillDef(name="csv", content="from async"), SkillDef(name="xml", content="from async")]

    def plain() -> list[SkillDef]:
        return [SkillDef(name="csv", content="from plain")]

    data = SkillDef(name="pdf", content="from data", description="d")
    source = await opened(skill_source([data, plain, later, str(tmp_path)]))
    assert source.skill_set.names == ["csv", "pdf", "xml"]
    assert "from disk" in (await call(source, "pdf")).output
    assert "from plain" in (await call(source, "csv")).output
    assert "from async" in (await call(source, "xml")).output
    assert [(i["path"], i["reason"]) for i in source.report] == [
        ("skill://pdf/", "duplicate-name"),
        ("skill://csv/", "duplicate-name"),
    ]


async def test_a_failing_provider_takes_nothing_else_along() -> None:
    """[SK-30] It is reported by its name; the other skills are there."""

    def broken() -> list[SkillDef]:
        raise RuntimeError("no network")

    source = await opened(skill_source([broken, SkillDef(name="pdf", content="x", description="d")]))
    assert source.skill_set.names == ["pdf"]
    assert reasons(source.report) == ["unreadable"]
    assert "broken" in source.report[0]["path"]
    assert "no network" in source.report[0]["detail"]


async def test_data_without_a_name_is_reported() -> None:
    """[SK-07] A `SkillDef` from a provider may be wrong too; it is reported, never raised."""
    source = await opened(skill_source([SkillDef(name="", content="x"), SkillDef(name="a", content="x")]))
    assert source.skill_set.names == ["a"]
    assert reasons(source.report) == ["missing-name"]


async def test_every_issue_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[SK-07] The report also goes to the log `toolnexus.skills`, one line each."""
    write_skill(tmp_path / "pdf-tools", "name: pdf\ndescription: d")
    write_skill(tmp_path / "broken", "name: a: b")
    with caplog.at_level(logging.WARNING, logger="toolnexus.skills"):
        await opened(skill_source(tmp_path))
    assert [r.getMessage().rpartition(" (")[2] for r in caplog.records] == [
        "malformed-frontmatter)",
        "name-mismatch)",
    ]


@pytest.mark.parametrize(
    ("filter", "names"),
    [
        (None, ["csv", "pdf", "pdf-forms"]),
        ({}, ["csv", "pdf", "pdf-forms"]),
        (["pdf"], ["pdf"]),
        (["pdf*"], ["pdf", "pdf-forms"]),
        ([], []),
        ({"pdf": True}, ["pdf"]),
        ({"pdf": False}, ["csv", "pdf-forms"]),
    ],
)
async def test_a_filter_narrows_by_name(tmp_path: Path, filter: Any, names: list[str]) -> None:
    """[SK-31] The one filter vocabulary: list, allowlist, drop-list, globs."""
    for name in ("pdf", "pdf-forms", "csv"):
        write_skill(tmp_path / name)
    source = await opened(skill_source({"paths": tmp_path, "filter": filter}))
    assert source.skill_set.names == names


async def test_a_filter_with_an_unknown_name_is_a_config_error(tmp_path: Path) -> None:
    """[SK-31] Unless a skill failed to load: it may be that one, so it is a warning then."""
    write_skill(tmp_path / "pdf")
    with pytest.raises(ConfigError, match=r"'pfd'.*'pdf'"):
        await opened(skill_source({"paths": tmp_path, "filter": ["pfd"]}))
    write_skill(tmp_path / "broken", "name: a: b")
    source = await opened(skill_source({"paths": tmp_path, "filter": ["pfd", "pdf"]}))
    assert source.skill_set.names == ["pdf"]


@pytest.mark.parametrize("option", [None, False, [], (), {}, {"paths": []}, {"paths": None}])
def test_an_option_that_names_nothing_is_no_source(option: Any) -> None:
    """[SK-32] Nothing given, nothing built."""
    assert skill_source(option) is None


async def test_every_form_of_the_option_finds_the_folder(tmp_path: Path) -> None:
    """[SK-32] A path, a string, a sequence, a mapping."""
    write_skill(tmp_path / "pdf")
    path = str(tmp_path)
    for option in (tmp_path, path, [tmp_path], (path,), iter([path]), {"paths": path}, {"paths": [tmp_path]}):
        source = await opened(skill_source(option))
        assert source.skill_set.names == ["pdf"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (True, "True"),
        (42, "42"),
        (b"skills", "b'skills'"),
        ([42], "42"),
        ([{"paths": "x"}], "no folder, no SkillDef"),
        ("nowhere/at/all", "'nowhere/at/all' does not exist"),
        (["nowhere"], "'nowhere' does not exist"),
        ({"path": "skills"}, "unknown key 'path'.*'paths'"),
        ({"paths": [], "sample_limit": -2}, "sample_limit=-2"),
        ({"paths": [], "sample_limit": "3"}, "sample_limit='3'"),
        ({"paths": [], "sample_limit": True}, "sample_limit=True"),
        ({"paths": SkillDef(name="a", content=""), "filter": "a"}, "filter"),
    ],
)
def test_an_option_of_another_shape_is_a_config_error_that_names_it(option: Any, says: str) -> None:
    """[SK-32] Wrong options are found while building."""
    with pytest.raises(ConfigError, match=says):
        skill_source(option)


def test_a_negative_sample_limit_is_a_config_error() -> None:
    """[SK-32] The source itself holds the rule, whoever builds it."""
    with pytest.raises(ConfigError, match="sample_limit=-2"):
        SkillSource([SkillDef(name="a", content="")], sample_limit=-2)


def test_importing_and_using_data_skills_loads_no_yaml() -> None:
    """[SK-33] The YAML parser is imported when the first folder skill is read, not before."""
    code = (
        "import asyncio, sys\n"
        "from toolnexus.tools.skills import SkillDef, skill_source\n"
        "s = skill_source(SkillDef(name='a', content='x'))\n"
        "asyncio.run(s.open(lambda: None))\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"yaml", "pydantic", "jsonschema", "mcp", "openai"} & set(ast.literal_eval(out.stdout))
