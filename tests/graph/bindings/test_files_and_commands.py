"""`fs` and `shell` in scripts."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import running
from tests.graph.bindings.kit import RUNTIMES, run
from toolnexus import ConfigError, graph
from toolnexus.graph.sandbox import Sandbox
from toolnexus.graph.scripts import StandardBindings
from toolnexus.graph.workspace import Workspace

pytestmark = pytest.mark.anyio

FILES = {
    "js": """
      fs.write('notes/a.txt', 'häi');
      board.setVar('read', fs.read('notes/a.txt'));
      board.setVar('there', [fs.exists('notes/a.txt'), fs.exists('notes'), fs.exists('b.txt')]);
      fs.delete('notes/a.txt');
      try { fs.read('notes/a.txt') } catch (e) { board.setVar('gone', e.kind) }
    """,
    "lua": """
      fs.write('notes/a.txt', 'häi')
      local text = fs.read('notes/a.txt')
      board.setVar('read', text)
      board.setVar('there', {fs.exists('notes/a.txt'), fs.exists('notes'), fs.exists('b.txt')})
      fs.delete('notes/a.txt')
      local _, err = fs.read('notes/a.txt')
      board.setVar('gone', err.kind)
    """,
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_scripts_read_and_write_files_of_the_workspace(
    scripts: Mapping[str, Any], runtime: str, tmp_path: Path
) -> None:
    """[GR-287] `fs` reads, writes, finds and deletes files below the folder of the workspace."""
    board = await run(scripts, runtime, FILES[runtime], workspace=tmp_path)
    assert board.vars() == {"read": "häi", "there": [True, True, False], "gone": "not_found"}
    assert os.listdir(tmp_path) == ["notes"]


async def kinds(workspace: Workspace, **paths: str) -> dict[str, str]:
    """How reading each path ends."""
    out: dict[str, str] = {}
    for name, path in paths.items():
        try:
            out[name] = await workspace.read(path, 100)
        except graph.GraphRunError as error:
            out[name] = error.kind
    return out


async def test_nothing_outside_of_the_workspace_is_reached(tmp_path: Path) -> None:
    """[GR-288] Neither `..`, nor an absolute path, nor a link leads out; a link inside is followed."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("s")
    (root / "in").write_text("i")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "near").symlink_to(root / "in")
    workspace = Workspace(root)
    found = await kinds(
        workspace,
        up="../secret",
        absolute=str(tmp_path / "secret"),
        link="out",
        through="folder/secret",
        near="near",
        folder=".",
        nul="a\0b",
        long="x" * 5000,
        half="\ud800",
    )
    assert found == {
        "up": "forbidden",
        "absolute": "forbidden",
        "link": "forbidden",
        "through": "forbidden",
        "near": "i",
        "folder": "validation",
        "nul": "validation",
        "long": "not_found",
        "half": "validation",
    }
    for path in ("../new", "out", "folder/new"):
        with pytest.raises(graph.GraphRunError) as refused:
            await workspace.write(path, "x")
        assert refused.value.kind == "forbidden"
    assert (tmp_path / "secret").read_text() == "s"
    await workspace.delete("out")
    assert (tmp_path / "secret").exists() and not (root / "out").is_symlink()
    with pytest.raises(graph.GraphRunError) as refused:
        await workspace.delete("folder/secret")
    assert refused.value.kind == "forbidden"


async def test_globs_say_what_of_the_workspace_may_be_used(tmp_path: Path) -> None:
    """[GR-289] `deny` goes before `allow`; both cover what lies below, and hidden names."""
    for name in ("src/a", "src/.env", "src/keys/k", "docs/d", "top"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "src" / "alias").symlink_to(tmp_path / "src" / ".env")
    workspace = Workspace(tmp_path, allow=["src/", "t*"], deny=["**/.env", "src/keys"])
    names = ["src/a", "src/.env", "src/keys/k", "docs/d", "top", "src/alias"]
    found = await kinds(workspace, **{name: name for name in names})
    denied = dict.fromkeys(("src/.env", "src/keys/k", "docs/d", "src/alias"), "forbidden")
    assert found == {"src/a": "src/a", "top": "top", **denied}
    assert not await workspace.exists("docs/d")
    with pytest.raises(ConfigError, match="must be a path in the workspace"):
        Workspace(tmp_path, deny=["../x"])
    with pytest.raises(ConfigError, match="list of globs"):
        Workspace(tmp_path, allow="src")
    with pytest.raises(ConfigError, match="folder of a workspace"):
        Workspace(tmp_path / "none")


async def test_files_have_a_largest_size(scripts: Mapping[str, Any], tmp_path: Path) -> None:
    """[GR-290] One read takes 1 MiB and one write 8 MiB unless the surface says otherwise."""
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    source = "for (const f of ['large', 'bytes']) try { fs.read(f) } catch (e) { board.setVar(f, e.kind) }"
    board = await run(scripts, "js", source, workspace=tmp_path)
    assert board.vars() == {"large": "validation", "bytes": "validation"}
    own = StandardBindings(graph.Services(workspace=tmp_path), max_read_bytes=3, max_write_bytes=3)
    source = """
      fs.write('a', 'xyz'); board.setVar('a', fs.read('a'));
      try { fs.write('b', 'wxyz') } catch (e) { board.setVar('b', e.kind) }
      try { fs.read('large') } catch (e) { board.setVar('c', e.kind) }
    """
    board = await run(scripts, "js", source, script_bindings=own)
    assert board.vars() == {"a": "xyz", "b": "validation", "c": "validation"}


SHELL = {
    "js": "board.setVar('r', shell.exec('sh -c', 'echo out; echo err >&2; exit 3'))",
    "lua": "board.setVar('r', shell.exec('sh -c', 'echo out; echo err >&2; exit 3'))",
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_commands_give_their_code_and_both_outputs(
    scripts: Mapping[str, Any], runtime: str, tmp_path: Path
) -> None:
    """[GR-291] The command is split at blanks, arguments are not; no exit code is an error."""
    board = await run(scripts, runtime, SHELL[runtime], sandbox=Sandbox(tmp_path))
    assert board["r"] == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}


async def test_what_may_not_run_is_refused(scripts: Mapping[str, Any], tmp_path: Path) -> None:
    """[GR-292] Commands are allowed as written or by their last name; a refusal has the exit code -1."""
    services = graph.Services(sandbox=Sandbox(tmp_path, allow=["echo", "/bin/sh", "true"], isolation=False))
    source = """
      var codes = {};
      for (const c of ['echo a', '/bin/echo a', 'sh -c :', '/bin/sh -c :', 'true', 'rm x', 'nosuch'])
        codes[c] = shell.exec(c).exit_code;
      board.setVar('codes', codes); board.setVar('why', shell.exec('rm x').stderr);
      try { shell.exec('  ') } catch (e) { board.setVar('empty', e.kind) }
    """
    of_surface = StandardBindings(services, shell=["echo", "sh"])
    board = await run(scripts, "js", source, script_bindings=of_surface)
    assert board["codes"] == {
        "echo a": 0,
        "/bin/echo a": 0,
        "sh -c :": -1,
        "/bin/sh -c :": 0,
        "true": -1,
        "rm x": -1,
        "nosuch": -1,
    }
    assert board["why"] == "the command 'rm' is not allowed here"
    assert board["empty"] == "validation"
    none = StandardBindings(services, shell=[])
    assert (
        await run(scripts, "js", "board.setVar('c', shell.exec('echo').exit_code)", script_bindings=none)
    )["c"] == -1


async def test_a_command_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """[GR-293] The time limit, a flood of output and the end of a command end its whole tree."""
    sandbox = Sandbox(tmp_path, timeout="300ms", isolation=False)
    late = await sandbox.exec(["sh", "-c", "echo begun; sleep 60 & echo $! >late; sleep 60"])
    assert (late.exit_code, late.stdout) == (-1, "begun\n")
    assert "timed out after 0.3 s" in late.stderr
    left = await sandbox.exec(["sh", "-c", "sleep 60 & echo $! >left"])
    assert left.exit_code == 0
    flood = await Sandbox(tmp_path, isolation=False).exec(["yes"])
    assert flood.exit_code == -1 and "too much output" in flood.stderr
    assert len(flood.stdout) < 1 << 17
    for name in ("late", "left"):
        assert not running(int((tmp_path / name).read_text()))


async def test_commands_see_no_secrets_and_the_variables_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[GR-294] The environment of a command is ours without secrets, and with what the sandbox adds."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    sandbox = Sandbox(tmp_path, environment={"COLOUR": "red"}, isolation=False)
    done = await sandbox.exec(["env"])
    assert "COLOUR=red" in done.stdout and "PATH=" in done.stdout
    assert "OPENAI_API_KEY" not in done.stdout
    missing = await Sandbox(tmp_path, isolation=False).exec(["no-such-program"])
    assert missing.exit_code == -1 and "cannot be started" in missing.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux")
async def test_behind_bubblewrap_only_the_folder_can_be_written(tmp_path: Path) -> None:
    """[GR-295] With `isolation=True` commands write below the root only, or there is no sandbox at all."""
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    sandbox = Sandbox(root, isolation=True)
    try:
        done = await sandbox.exec(["sh", "-c", f"echo x >in; echo x >{other}/out"])
    except graph.GraphRunError as error:
        assert error.kind == "not_available"
        return
    assert done.exit_code != 0
    assert (root / "in").exists() and not (other / "out").exists()
