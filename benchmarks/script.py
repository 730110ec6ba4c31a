"""What the endpoint answers, as pure functions of the request.

The first user message of a conversation is a plan, a JSON object:

* `id`      a name, which comes back in the final text
* `rounds`  how many turns call tools before the final text
* `calls`   how many calls of `noop` each of those turns makes
* `delay`   seconds before each answer
* `agents`  how many sub-agents the first turn starts with `task`, instead of calls of `noop`
* `each`    the plan that every sub-agent gets, with an `id` of its own
* `task`    how a sub-agent is asked for, when not as `task(agent="worker", prompt=…)`: the name of the tool,
  the name of the argument that takes the prompt, and the other arguments
* `deltas`  in how many deltas the final text comes, when it is streamed
* `wrapped` true: a result may have something around it, and a call another id (the way of some packages)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Plan = Mapping[str, Any]

TASK = ("task", "prompt", {"agent": "worker"})


class Call(NamedTuple):
    """One tool call, and the result that it must have in every later request."""

    id: str
    name: str
    arguments: str
    expected: str


class Faults(NamedTuple):
    """What is wrong with the tool results of a request."""

    missing: int = 0
    duplicate: int = 0
    out_of_order: int = 0
    wrong: int = 0


def prompt(**plan: Any) -> str:
    """The user message that asks for `plan`."""
    return json.dumps(plan, separators=(",", ":"))


@lru_cache(maxsize=4096)
def read_plan(text: str) -> Plan:
    """The plan in a user message."""
    return json.loads(text)


def final_text(plan: Plan) -> str:
    """The text that ends the conversation."""
    count = plan.get("deltas")
    return "".join(pieces(count)) if count else f"done {plan.get('id', 'main')}"


def pieces(count: int) -> list[str]:
    """The deltas of a streamed text; no two are equal, so a lost one shows."""
    return [f"w{n} " for n in range(count)]


def requests_needed(plan: Plan) -> int:
    """How many requests a run of `plan` takes, its sub-agents included."""
    if agents := plan.get("agents", 0):
        return 2 + agents * requests_needed(plan["each"])
    return plan.get("rounds", 0) + 1


@lru_cache(maxsize=4096)
def calls_of(text: str, round: int) -> tuple[Call, ...]:
    """The calls of turn `round` (from 0) under the plan in `text`; none: that turn is the last."""
    plan = read_plan(text)
    if agents := plan.get("agents", 0):
        return tuple([_task(plan, i) for i in range(agents)]) if round == 0 else ()
    if round >= plan.get("rounds", 0):
        return ()
    return tuple([_noop(round, i) for i in range(plan.get("calls", 1))])


def _noop(round: int, i: int) -> Call:
    x = 100 * round + i  # no call is made twice: that would get a word from us, and cost one
    return Call(f"c{round}_{i}", "noop", json.dumps({"x": x}), f"{x} ok")


def _task(plan: Plan, i: int) -> Call:
    each = {**plan["each"], "id": f"{plan.get('id', 'main')}.{i}"}
    name, takes_prompt, others = plan.get("task", TASK)
    arguments = {**others, takes_prompt: prompt(**each)}
    return Call(f"c0_{i}", name, json.dumps(arguments), final_text(each))


def inspect(messages: list[dict[str, Any]]) -> tuple[str, int, Faults]:
    """The plan of a conversation as text, the turn that is due, and the faults of its results."""
    text = _plan_text(next(m["content"] for m in messages if m["role"] == "user"))
    wrapped = read_plan(text).get("wrapped", False)
    faults = Faults()
    turn = 0
    expected: tuple[Call, ...] = ()
    got: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            got.append(message)
        elif message["role"] == "assistant" and message.get("tool_calls"):
            faults = _compare(expected, got, faults, wrapped)
            expected, got = calls_of(text, turn), []
            if wrapped:  # whoever makes up ids of their own has to keep to those
                told = message["tool_calls"]
                expected = tuple([c._replace(id=t["id"]) for c, t in zip(expected, told, strict=False)])
            turn += 1
    return text, turn, _compare(expected, got, faults, wrapped)


def _plan_text(content: Any) -> str:
    """The plan in a user message, which may be in parts and have words around the plan."""
    if not isinstance(content, str):
        content = "".join([part.get("text", "") for part in content])
    return content if content.startswith("{") and content.endswith("}") else _within(content)


@lru_cache(maxsize=4096)
def _within(text: str) -> str:
    begin = text.index("{")
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return text[begin:end]


def _equals(content: Any, expected: str) -> bool:
    return content == expected


def _holds(content: Any, expected: str) -> bool:
    text = content if isinstance(content, str) else json.dumps(content)
    return re.search(rf"(?<![\w.]){re.escape(expected)}(?![\w.])", text) is not None


def _compare(
    expected: tuple[Call, ...],
    got: list[dict[str, Any]],
    faults: Faults,
    wrapped: bool,
) -> Faults:
    same = _holds if wrapped else _equals
    ids = [message["tool_call_id"] for message in got]
    if ids == [call.id for call in expected]:
        wrong = sum([not same(m["content"], c.expected) for m, c in zip(got, expected, strict=True)])
        return faults._replace(wrong=faults.wrong + wrong) if wrong else faults
    missing = len({call.id for call in expected} - set(ids))
    duplicate = len(ids) - len(set(ids))
    return faults._replace(
        missing=faults.missing + missing,
        duplicate=faults.duplicate + duplicate,
        out_of_order=faults.out_of_order + (not missing and not duplicate),
    )


def usage(messages: int, calls: int) -> dict[str, int]:
    """What one answer reports: it depends on the request, so a sum that is exact is no accident."""
    sent, given = 100 + 7 * messages, 10 + 3 * calls
    return {"prompt_tokens": sent, "completion_tokens": given, "total_tokens": sent + given}


def reply(text: str, turn: int, messages: int) -> bytes:
    """The whole answer as a chat completion."""
    calls = calls_of(text, turn)
    content = None if calls else final_text(read_plan(text))
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [_wire_call(call) for call in calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(calls)}
    return _dump({**_head("chat.completion"), "choices": [choice], "usage": usage(messages, len(calls))})


def events(text: str, turn: int, messages: int) -> Iterator[bytes]:
    """The same answer as server-sent events."""
    calls = calls_of(text, turn)
    yield _delta({"role": "assistant", "content": None if calls else ""})
    for index, call in enumerate(calls):
        yield _delta({"tool_calls": [{"index": index, **_wire_call(call)}]})
    if not calls:
        plan = read_plan(text)
        yield from text_events(plan["deltas"]) if plan.get("deltas") else [_text_event(final_text(plan))]
    yield _delta({}, _finish(calls))
    head = _head("chat.completion.chunk")
    yield _event(_dump({**head, "choices": [], "usage": usage(messages, len(calls))}))
    yield _event(b"[DONE]")


@lru_cache(maxsize=8)
def text_events(count: int) -> tuple[bytes, ...]:
    """A text in `count` deltas; made once, so that no side waits for it longer than another."""
    return tuple([_text_event(piece) for piece in pieces(count)])


def _text_event(text: str) -> bytes:
    return _delta({"content": text})


def _delta(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(_dump({**_head("chat.completion.chunk"), "choices": [choice]}))


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "bench"}


def _wire_call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _finish(calls: tuple[Call, ...]) -> str:
    return "tool_calls" if calls else "stop"


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data
