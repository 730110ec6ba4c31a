"""JavaScript in the child: one QuickJS runtime for each script."""

from __future__ import annotations

import json
import os
import re
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolnexus.graph.scripts.worker import Failure, Script

# jsbox imports both for what is not used here, and they take four fifths of the start of a child
for unused in ("asyncio", "multiprocessing"):
    sys.modules.setdefault(unused, types.ModuleType(unused))

import jsbox  # noqa: E402

quickjs: Any = jsbox
"""It has no types of its own."""

FRAME = 800
"""Bytes of native stack that one call of a small function takes."""
BASE = 16 << 10
"""Bytes of native stack for what runs below the script."""

# runs what promises left behind: it waits for what never comes, until there is nothing else to do
DRAIN = "(async()=>{await{then(){}}})()"
LINE = re.compile(r"<input>:(\d+)")


def engine(settings: dict[str, Any]) -> Callable[[Script], Failure | None]:
    """What executes a script. `memory` is in bytes, `stack` in calls."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prelude.js")) as file:
        prelude = file.read()

    def execute(script: Script) -> Failure | None:
        runtime = quickjs.Runtime(
            memory_limit=settings["memory"] >> script.depth,
            max_stack_size=BASE + FRAME * settings["stack"],
            max_value_bytes=32 << 20,
        )
        errors: list[tuple[str, int | None]] = []

        def uncaught(kind: str, id: int | None) -> None:
            errors.append((kind, id))

        job = {
            "source": script.source,
            "direct": script.source.lstrip().startswith(("(function", "(()")),
            "config": script.config,
            "surface": script.job.surface,
            "constants": script.job.constants,
        }

        def call(path: str, args: str) -> str:
            return script.call(path, args.encode(errors="surrogatepass"))

        runtime.bind_function("call", call)
        runtime.bind_function("uncaught", uncaught)
        runtime.bind_object("job", json.dumps(job))
        try:
            runtime.eval(prelude, timeout=script.left)
        except quickjs.JsTimeoutError:
            return {"kind": "timeout", "message": ""}
        except quickjs.JavaScriptError as error:
            return failure(script.name, error, errors)
        except BaseException:
            if not script.over:
                raise
            return None
        return drain(runtime, script)

    return execute


def drain(runtime: Any, script: Script) -> Failure | None:
    if script.over:
        return None
    try:
        runtime.eval(DRAIN, timeout=script.left)
    except quickjs.JsTimeoutError:
        return {"kind": "timeout", "message": ""}
    except quickjs.JavaScriptError:
        return None
    except BaseException:
        if not script.over:
            raise
    return None


def failure(name: str, error: Any, errors: list[tuple[str, int | None]]) -> Failure:
    line = LINE.search(error.stack or "")
    where = f"{name}:{line[1]}" if line else name
    if errors:
        kind, id = errors[-1]
        return {"kind": kind, "message": f"{where}: {error.message}", "id": id}
    what = f"{error.name}: {error.message}" if error.name else error.message
    if what == "null":
        what = "null, or not enough memory"  # the engine has none left to say so
    return {"kind": "internal", "message": f"{where}: {what}"}
