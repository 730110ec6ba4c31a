"""One JavaScript and one Lua runtime for all tests of a module: their children are reused."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from toolnexus.graph.scripts import JsRuntime, LuaRuntime


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def scripts(anyio_backend: str) -> AsyncIterator[Mapping[str, Any]]:
    runtimes = {
        "js": JsRuntime(pool_size=2, max_exec_time="10s"),
        "lua": LuaRuntime(pool_size=2, max_exec_time="10s"),
    }
    yield runtimes
    for runtime in runtimes.values():
        await runtime.close()
