"""The MCP conformance package, in both eras; what is expected to fail, and why: conformance-*.yml."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.peers.conformance_tools import tools
from toolnexus import Client, serve
from toolnexus.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.peers]

HERE = Path(__file__).parent
eras = pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])


async def conformance(*arguments: str, node: dict[str, str]) -> tuple[int, str]:
    """The exit code of the package, and what it says."""
    program = await asyncio.create_subprocess_exec(
        *("conformance", *arguments),
        env={**node, "PYTHONPATH": str(HERE.parents[1])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(120):
            out, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    return await program.wait(), out.decode()


def expected(era: str) -> Path:
    return HERE / f"conformance-{era}.yml"


@eras
async def test_what_is_served_conforms(node: dict[str, str], era: str, tmp_path: Path) -> None:
    """[PEER-20] Every scenario that a revision requires of servers, but those that are listed."""
    given = ["--requirements", era, "--expected-failures", str(expected(era)), "-o", str(tmp_path)]
    async with Client(model=ScriptedModel([]), builtins=False, tools=tools()) as client:
        async with serve(client, mcp={"tools": ["*"]}) as server:
            code, said = await conformance("server", "--url", f"{server.url}/mcp", *given, node=node)
    assert code == 0, said[said.find("=== SUMMARY") :]


@eras
async def test_the_client_conforms(node: dict[str, str], era: str, tmp_path: Path) -> None:
    """[PEER-21] Every scenario that a revision requires of clients; those of OAuth are only listed."""
    _, listed = await conformance("list", "--client", "--requirements", era, node=node)
    _, _, of_clients = listed.partition("Client scenarios")
    required = re.findall(r"^  - (\S+)", of_clients.partition("\nNot scored")[0], re.MULTILINE)
    assert "tools_call" in required
    oauth = {name for name in required if name.startswith("auth/")}
    assert oauth and oauth == {n for n in yaml.safe_load(expected(era).read_text())["client"] if "auth/" in n}
    command = f"{sys.executable} {HERE / 'conformance_client.py'}"
    given = ["--command", command, "--spec-version", era, "--expected-failures", str(expected(era))]
    wrong: list[str] = []
    for scenario in [name for name in required if name not in oauth]:
        code, said = await conformance(
            "client", *given, "--scenario", scenario, "-o", str(tmp_path), node=node
        )
        if code:
            wrong.append(f"{scenario}\n{said}")
    assert not wrong, "\n".join(wrong)
