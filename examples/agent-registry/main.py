"""Named roles: each agent has a system prompt and a part of the client's tools.

What to look at: the catalog is what the calling model knows of its agents; the auditor may read and
nothing else, also when it tries; a misspelt tool is an error before anything runs.
"""

import asyncio
import os
from tempfile import TemporaryDirectory

from script import scripted

from toolnexus import Agent, Client, ConfigError

AGENTS = [
    Agent(
        name="auditor",
        description="Reads files and judges them. Changes nothing.",
        system_prompt="You audit. Read what you are told to and say what is wrong with it.",
        tools=["read", "glob"],  # a list gives these and nothing else
    ),
    Agent(
        name="operator",
        description="Runs commands.",
        system_prompt="You operate. Run what you are told to and report its output.",
        tools={"builtins": {"write": False}},  # a mapping of filters takes away, here one builtin
        max_turns=4,
    ),
]


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    with TemporaryDirectory() as folder:
        async with Client(
            model=model, builtins=["read", "write", "glob", "bash"], agents=AGENTS, workdir=folder
        ) as client:
            task = client.toolkit.get("task")
            assert task is not None
            print("\nwhat the model is told:\n" + task.description.partition("Agents:\n")[2])

            result = await client.ask(
                "Have the operator put today's weekday into day.txt with a shell command, and at the same "
                "time have the auditor do the same. Tell me who could."
            )

    print("\nwho did what:")
    for child in result.sub_agents:
        names = {call.id: call for message in child.messages for call in message.tool_calls}
        for answer in (a for message in child.messages for a in message.tool_results):
            verdict = "refused" if answer.is_error else "ran"
            print(f"  {child.path[-1]}: {names[answer.call_id].name} {verdict}: {answer.output.strip()}")
    print(f"\n{result.text}")

    try:
        Client(model=model, agents=[Agent(name="auditor", tools=["raed"])])
    except ConfigError as error:
        print(f"\na misspelt tool: {error}")


if __name__ == "__main__":
    asyncio.run(main())
