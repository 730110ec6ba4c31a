"""A driver that does what the name of its case says, and nothing good."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def say(type: str, **fields: Any) -> None:
    print(json.dumps({"type": type, **fields}), flush=True)


MODEL: dict[str, Any] = {"agent": "main", "path": "main", "turn": 1, "model": "m", "tools": []}
TOOL: dict[str, Any] = {"name": "probe", "arguments": {}, "path": "main"}


def endless() -> None:
    while True:
        os.write(1, b"x" * (1 << 16))


def twice() -> None:
    say("tool", id=7, **TOOL)
    say("tool", id=7, **TOOL)


def die() -> None:
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)


def leave_a_child() -> None:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    os._exit(0)


def let_a_child_go() -> None:
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    with open(os.environ["BROKEN_CHILD"], "w", encoding="ascii") as file:
        file.write(str(subprocess.Popen(sleep, start_new_session=True).pid))
    os._exit(0)


WAYS: dict[str, Callable[[], object]] = {
    "garbage": lambda: print("Traceback (most recent call last):", flush=True),
    "a list": lambda: print("[1, 2]", flush=True),
    "no text": lambda: os.write(1, b"\xff\xfe\n"),
    "endless": endless,
    "a maze": lambda: print("[" * 100_000, flush=True),
    "no type": lambda: print("{}", flush=True),
    "a wrong key": lambda: say("model", id=1, messages="all of them", **MODEL),
    "an id twice": twice,
    "another tool": lambda: say("tool", id=1, **{**TOOL, "name": "nobody declared it"}),
    "another step": lambda: say("ended"),
    "another's question": lambda: say("question", id=1, of="nobody"),
    "death": die,
    "silence": lambda: time.sleep(60),
    "a child that stays": leave_a_child,
    "a child that leaves": let_a_child_go,
    "its own failure": lambda: say("failed", error="ZeroDivisionError()"),
    "a late lack": lambda: say("unsupported", feature="such things"),
}


def main() -> None:
    say("hello", protocol=1, name="broken", version=str(os.getpid()))
    how = ""
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "case":
            how = message["name"]
            say("ready")
        elif message["type"] == "step":
            WAYS[how]() if how in WAYS else say("result", result={"text": how})
        elif message["type"] == "end":
            say("ended") if how != "no end" else say("refused", error="I go on")


main()
