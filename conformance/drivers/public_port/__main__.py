"""Driver for another implementation: the `toolnexus` port that is on PyPI, release 0.21.

Runs in an environment that holds that port and nothing of this repository; see README.md beside it.
Standard library and the port's public names only. Its models are addresses (`endpoint` in DRIVER.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from lines import Driver

UNSUPPORTED = [
    "client.allowedModels",
    "client.maxSubAgents",
    "client.budget.requests",
    "client.budget.concurrency",
    "client.builtins.task",
    "client.shouldContinue",
    "agents.shouldContinue",
    "agents.budget.requests",
    "agents.tools.builtin",
    "agents.tools.builtins",
    "agents.tools.native",
    "agents.tools.skills",
    "run.restart",
    "run.expect.limitsHit",
    "run.expect.subAgentToolCalls",
    "run.expect.subAgents.limitsHit",
    "run.expect.usage.byAgent",
    "run.expect.usage.byModel",
    "run.expect.usage.byPath",
]


async def main() -> None:
    """Speak with the runner until its end."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the port prints is no message
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    loop.set_default_executor(ThreadPoolExecutor(64))  # a request holds a thread

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    driver = Driver(out)
    about = {"name": "toolnexus from PyPI", "version": version("toolnexus")}
    driver.say("hello", protocol=1, **about, endpoint=True, unsupported=UNSUPPORTED)
    while (line := await lines.get()) is not None:
        await driver.take(json.loads(line))
    os._exit(0)  # threads that wait for an answer would hold it


asyncio.run(main())
