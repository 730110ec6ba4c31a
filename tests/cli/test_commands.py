"""The command line around its commands: start, help, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import CLI, PROGRAM, environment
from tests.warm import Warm
from toolnexus.cli.main import main


def test_help_and_version_load_no_engine_and_cost_little(tmp_path: Path) -> None:
    """[CLI-01] `--help` and `--version` load neither client nor engine and take under 0.15 s of CPU."""
    program = (
        "import sys\n"
        "from toolnexus.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as end:\n    print(end.code, sorted(m for m in sys.modules if 'toolnexus.' in m))"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", program, option],
            capture_output=True,
            text=True,
            env=environment(tmp_path),
            check=True,
        )
        assert done.stdout.splitlines()[-1] == (
            "0 ['toolnexus.cli', 'toolnexus.cli.exits', 'toolnexus.cli.graph_parser', "
            "'toolnexus.cli.groups', 'toolnexus.cli.main', 'toolnexus.cli.parser', 'toolnexus.errors']"
        )
    assert min(cpu_seconds(tmp_path) for _ in range(3)) < 0.15


def cpu_seconds(folder: Path) -> float:
    """What `toolnexus --help` takes."""
    process = subprocess.Popen([*CLI, "--help"], stdout=subprocess.DEVNULL, env=environment(folder))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_help_names_the_commands_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-02] The help of the program and of each command is complete and exits 0."""
    for arguments in (["--help"], ["demo", "--help"], ["run", "--help"], ["chat", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "0 done, 1 error, 2 usage, 3 incomplete (a limit), 4 pending (an open question)" in text


def test_without_a_command_the_help_is_shown_as_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-03] No command: the help on standard error, exit code 2."""
    assert main([]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert all(command in said for command in ("demo", "run", "chat"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["demo", "--fault", "fire"],
        ["demo", "--plain", "--json"],
        ["demo", "--think", "-1"],
        ["run"],
        ["run", "x", "--max-turns", "0"],
        ["run", "x", "--builtins", "read", "--no-builtins"],
    ],
)
def test_wrong_options_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-04] What the parser refuses exits with 2 and says on standard error what is wrong."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_reader_that_leaves_early_gets_no_traceback(warm: Warm, tmp_path: Path) -> None:
    """[CLI-05] `toolnexus demo | head -1` ends without a traceback and leaves no folder."""
    with warm.piped(PROGRAM, "demo", "--plain", "--think", "0", env=environment(tmp_path)) as demo:
        assert demo.stdout.readline().startswith("toolnexus demo")
        demo.stdout.close()
        assert demo.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """[CLI-06] `python -m toolnexus` gives the exit code of the command."""
    assert subprocess.run(CLI, capture_output=True, env=environment(tmp_path)).returncode == 2
