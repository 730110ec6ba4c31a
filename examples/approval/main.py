"""Who may do what: calls that run, calls that are asked about, calls that never run.

What to look at: the sub-agent says of itself that it may run every command, and is asked and denied like
its caller. The approval is bound to its arguments: in a snapshot that somebody edited the call is refused.
"""

import asyncio
import json
import os
import tempfile
from pathlib import Path

from script import scripted

from toolnexus import Agent, Answer, Client, Request, RunResult

RULES = {"bash(ls*)": "allow", "bash(rm *)": "deny", "bash": "ask"}
cleaner = Agent(
    name="cleaner",
    description="Tidies the folder up.",
    system_prompt="Tidy up, then say in one line what you did.",
    tools=["bash"],
    permissions={"bash": "allow"},  # it cannot take back what its caller asks and denies
)


def show(result: RunResult, indent: str = "  ") -> None:
    """What became of each command."""
    for message in result.messages:
        for call in message.tool_calls:
            results = [r for m in result.messages for r in m.tool_results if r.call_id == call.id]
            if call.name == "bash":
                print(
                    f"{indent}{json.loads(call.arguments)['command']} -> {results[0].output.splitlines()[0]}"
                )
    for child in result.sub_agents:
        print(f"{indent}{'/'.join(child.path)}:")
        show(child, indent + "  ")


def decide(request: Request) -> Answer:
    """What a person is shown, and says."""
    data = request.data or {}
    command = data["arguments"]["command"]
    ok = command == "touch approved.txt"
    print(
        f"asked: {'/'.join(data['path'])} wants {command!r}, rule {data['rule']!r}: {'yes' if ok else 'no'}"
    )
    return Answer(id=request.id, ok=ok, reason=None if ok else "declined")


async def run(folder: Path) -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    async with Client(
        model=model, builtins=["bash"], agents=[cleaner], permissions=RULES, workdir=folder
    ) as client:
        result = await client.ask("List the files, make approved.txt, and have the folder tidied up.")
        print("status:", result.status)
        if result.pending:
            edited = json.dumps(result.snapshot).replace("touch approved.txt", "touch evil.txt")
            answers = [decide(request) for request in result.pending]
            print("the edited run:")
            show(await client.resume(json.loads(edited), answers[:1]))
            result = await client.resume(result, answers)
        print("the run:")
        show(result)
        print(result.text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "notes.txt").touch()
        asyncio.run(run(Path(folder)))
        print("files:", sorted(path.name for path in Path(folder).iterdir()))


if __name__ == "__main__":
    main()
