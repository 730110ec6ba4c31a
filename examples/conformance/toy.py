"""A toy agent loop, and its driver: all that another implementation needs to be held against the fixtures."""

import itertools
import json
import sys
from typing import Any

Data = dict[str, Any]
LACKS = [
    "agents",
    "client.builtins.tools",
    "client.skills",
    "client.budget",
    "run.resume",
    "run.expect.usage",
]


class Runner:
    """The other side: asks for what a model or a tool would say."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def say(self, type: str, **fields: Any) -> None:
        print(json.dumps({"type": type, **fields}), flush=True)

    def hear(self) -> Data | None:
        while line := sys.stdin.readline():
            message: Data = json.loads(line)
            if message["type"] != "sync":
                return message
            self.say("synced", id=message["id"])  # it waits for one answer at a time: nothing is under way
        return None

    def ask(self, type: str, **fields: Any) -> Data:
        self.say(type, id=next(self._ids), **fields)
        answer = self.hear()
        if answer is None:
            sys.exit()
        return answer


def toy_loop(prompt: str, case: Data, runner: Runner) -> Data:
    """The implementation: asks the model, runs its calls one after the other, asks again."""
    tools = {tool["name"] for tool in case["tools"]}
    messages: list[Data] = [{"role": "user", "text": prompt}]
    for turn in range(1, case["client"].get("maxTurns", 10) + 1):
        asked: Data = {"agent": "main", "path": "main", "turn": turn, "model": "scripted"}
        said = runner.ask("model", **asked, messages=messages, tools=case["tools"])
        messages.append({"role": "assistant", "text": said["text"], "calls": said["calls"]})
        if not said["calls"]:
            return {"status": "done", "text": said["text"], "turns": turn, "messages": messages}
        for call in said["calls"]:
            result: Data = {"output": f"no tool {call['name']!r}", "isError": True}
            if call["name"] in tools:
                arguments = json.loads(call["arguments"] or "{}")
                given = runner.ask("tool", name=call["name"], arguments=arguments, path="main")
                result = {"output": given.get("output", given.get("error")), "isError": "error" in given}
            messages.append({"role": "tool", "id": call["id"], "name": call["name"], **result})
    return {"status": "incomplete", "limit": "max_turns", "text": "", "messages": messages}


def main() -> None:
    runner, case = Runner(), Data()
    runner.say("hello", protocol=1, name="toy", version="1", unsupported=LACKS)
    while message := runner.hear():
        if message["type"] == "case":
            case = message
            runner.say("ready")
        elif message["type"] == "step" and "ask" in message:
            runner.say("result", result=toy_loop(message["ask"], case, runner))
        elif message["type"] == "step":
            runner.say("unsupported", feature="anything but ask")
        elif message["type"] == "end":
            runner.say("ended")


main()
