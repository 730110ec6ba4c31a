"""The search of grep where there is no ripgrep: a program that runs in a process of its own.

A thread would not do: a pattern that backtracks holds the interpreter, and only a process can be
killed. Reads a JSON job from standard input; writes `path NUL number:text` for each hit, in the
order of the job's files. When all were searched, standard error holds a JSON object that says what
was left out; after a failure it holds a message.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from typing import Any, BinaryIO

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def search(job: dict[str, Any], out: BinaryIO) -> dict[str, list[str]]:
    """Write the hits and return what was left out.

    `job`: pattern, files, limit (hits in all), width (characters of a line), sniff (bytes).
    """
    matches = re.compile(job["pattern"]).search
    left: int = job["limit"]
    binary: list[str] = []
    unreadable: list[str] = []
    for name in job["files"]:
        try:
            with open(name, "rb") as file:
                data = file.read()
        except OSError:
            unreadable.append(name)
            continue
        is_binary = b"\0" in data[: job["sniff"]]
        for number, line in enumerate(_lines(data), 1):
            if matches(line) is None:
                continue
            if is_binary:
                binary.append(name)
                break
            text = f"{number}:{line[: job['width']]}\n"
            out.write(os.fsencode(name) + b"\0" + text.encode("utf-8", "replace"))
            left -= 1
            if not left:
                return {}
    return {"binary": binary, "unreadable": unreadable}


def _lines(data: bytes) -> list[str]:
    encoding = "utf-8"
    for mark, name in _MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
    lines = data.decode(encoding, "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


if __name__ == "__main__":
    try:
        json.dump(search(json.load(sys.stdin.buffer), sys.stdout.buffer), sys.stderr)
    except (re.error, OverflowError, RecursionError) as error:
        sys.exit(f"{error}")
