"""The options of the runtimes, checked where they are written."""

import subprocess
import sys
from typing import Any

import pytest

from toolnexus import ConfigError, graph

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"pool_size": 0}, "pool_size=0 must be 1 or more"),
    ({"pool_size": True}, "pool_size=True"),
    ({"pool_size": 1.5}, "pool_size=1.5"),
    ({"max_exec_time": -1}, "max_exec_time=-1 must be 0 or more"),
    ({"max_exec_time": "-1s"}, "max_exec_time=-1.0 must be 0 or more"),
    ({"max_exec_time": "soon"}, "max_exec_time: 'soon' is no duration"),
    ({"max_exec_time": float("inf")}, "max_exec_time=inf"),
    ({"max_exec_time": None}, "max_exec_time=None"),
    ({"memory_limit": 1000}, "memory_limit=1000 must be 1048576 or more"),
    ({"memory_limit": "64M"}, "memory_limit='64M'"),
    ({"grace": -0.1}, "grace=-0.1 must be 0 or more"),
]


@pytest.mark.parametrize("made", [graph.JsRuntime, graph.LuaRuntime])
def test_options_are_checked(made: type[Any]) -> None:
    """[GR-235] The error names the runtime, the option and what is allowed; no process starts for it."""
    for options, text in WRONG:
        with pytest.raises(ConfigError, match=made.__name__) as caught:
            made(**options)
        assert text in str(caught.value)
    for time in ("1m30s", "0", 0, 2.5):
        assert made(max_exec_time=time).language in ("js", "lua")


def test_the_depth_of_calls_is_checked() -> None:
    """[GR-235] `max_call_stack_size` is 1 to 5000."""
    for size in (0, -1, 5001, "512", True):
        with pytest.raises(ConfigError, match="max_call_stack_size"):
            graph.JsRuntime(max_call_stack_size=size)  # pyright: ignore[reportArgumentType]


def test_a_missing_package_is_told_when_the_runtime_is_made() -> None:
    """[GR-236] With the extra that brings it."""
    program = (
        "import sys\n"
        "from toolnexus.graph.scripts import JsRuntime, LuaRuntime\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if getattr(f, '__name__', '') != 'PathFinder']\n"
        "for made in (JsRuntime, LuaRuntime):\n"
        "    try: made()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "print([m for m in ('jsbox', 'lupa') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    js, lua, loaded = done.stdout.splitlines()
    assert js.startswith("ConfigError JsRuntime needs jsbox: install the extra 'graph-js'")
    assert lua.startswith("ConfigError LuaRuntime needs lupa: install the extra 'graph-lua'")
    assert loaded == "[]"
