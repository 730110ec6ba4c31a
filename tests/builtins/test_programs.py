"""Programs that the tools start for themselves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.builtins.helpers import output, tree
from toolnexus.tools.builtin import search
from toolnexus.tools.builtin.programs import bare_environment, find_program

pytestmark = pytest.mark.anyio


def planted(folder: Path, name: str, log: Path) -> Path:
    """A program that leaves its environment in `log`."""
    tree(folder, {name: f"#!/bin/sh\nenv >{log}\n"})
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.parametrize("way", ["bin", "link", "relative"])
async def test_a_ripgrep_in_the_root_is_not_started(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-233] A command could have put it there: in a PATH folder, behind a link, or in a relative one."""
    root = tree(tmp_path / "root", {"a.txt": "needle\n"})
    rg = planted(root / "bin", "rg", tmp_path / "log")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "rg").symlink_to(rg)
    folder = {"bin": str(root / "bin"), "link": str(tmp_path / "links"), "relative": "bin"}[way]
    monkeypatch.setenv("PATH", os.pathsep.join([folder, os.environ["PATH"]]))
    monkeypatch.chdir(root)
    assert await output("grep", root, pattern="needle") == "a.txt:1:needle"
    assert not (tmp_path / "log").exists()
    if way != "relative":  # the same program is fine for a root that it does not lie in
        assert find_program("rg", str(tmp_path / "elsewhere")) == os.path.join(folder, "rg")


async def test_a_search_gets_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-233] Not one variable, beside where libraries are, as far as that is not in the root."""
    root = tree(tmp_path / "root", {"a.txt": "needle\n", "lib/x": ""})
    planted(tmp_path / "bin", "rg", tmp_path / "log")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))
    monkeypatch.setenv("ANY_KEY", "secret-1")
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(["", "lib", str(root / "lib"), str(tmp_path)]))
    assert "No line matches" in await output("grep", root, pattern="needle")
    told = (tmp_path / "log").read_text().splitlines()
    names = {line.partition("=")[0] for line in told}
    assert names <= {"LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_"}, "the rest is the shell's own"
    assert bare_environment(str(root))["LD_LIBRARY_PATH"] == str(tmp_path)


def test_what_is_installed_with_the_interpreter_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-233] It is trusted like the interpreter itself."""
    program = planted(tmp_path / "bin", "rg", tmp_path / "log")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert search.ripgrep(str(tmp_path)) == str(program)
