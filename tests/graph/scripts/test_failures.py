"""Errors of scripts, errors of the host, and signals."""

import asyncio
from typing import Any

import pytest

from tests.graph.scripts.world import LANGUAGES, SURFACE, world
from toolnexus.graph.scripts import ScriptError, ScriptFailure, Signal

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("language", LANGUAGES)]


async def test_an_uncaught_error_is_internal_with_name_and_line(language: str) -> None:
    """[GR-210] Thrown by hand, by a fault or by the syntax; the pool goes on."""
    bad = {
        "js": [
            ("\nthrow new Error('oops')", "node:2: Error: oops"),
            ("nosuch.call()", "node:1: ReferenceError: nosuch is not defined"),
            ("\n\nlet x = = 1", "node:3: SyntaxError: unexpected token in expression: '='"),
            ("throw 'text'", "node: text"),
            ("throw {code: 7}", 'node: Error: {"code":7}'),
            ("throw undefined", "node: undefined"),
        ],
        "lua": [
            ("\nerror('oops')", "node:2: oops"),
            ("nosuch.call()", "node:1: attempt to index a nil value (global 'nosuch')"),
            ("\n\nlocal x = = 1", "node:3: unexpected symbol near '='"),
            ("error({message = 'text'})", "node: text"),
            ("error(setmetatable({}, {__tostring = function() return 'told' end}))", "node: told"),
            ("error()", "node: nil"),
            ("coroutine.yield()", "node: attempt to yield from outside a coroutine"),
        ],
    }
    async with world(language) as w:
        for source, message in bad[language]:
            failure = await w.failure(source)
            assert (failure.kind, failure.message) == ("internal", message)
        failure = await w.failure(
            {"js": "throw new Error('x'.repeat(1e7))", "lua": "error(string.rep('x', 1e7 | 0))"}
        )
        assert failure.kind == "internal" and 1000 < len(failure.message) < 5000


async def test_javascript_throws_what_the_host_raised(language: str) -> None:
    """[GR-211] An `Error` with `kind` and `message`; in Lua an error of a plain method is raised."""
    caught = {
        "js": """
            try { board.resolve('x') } catch (e) {
              board.setVar('out', [e instanceof Error, e.kind, e.message])
            }""",
        "lua": """
            local ok, e = pcall(host.fail, 'conflict')
            board.setVar('out', {ok, type(e), e.kind, e.message, e})""",
    }
    async with world(language) as w:
        expected: dict[str, list[Any]] = {
            "js": [True, "validation", "no variable 'x'"],
            "lua": [False, "string", "conflict", "refused by the host", "refused by the host"],
        }
        assert await w.out(caught) == expected[language]


async def test_lua_returns_what_went_wrong(language: str) -> None:
    """[GR-212] `value, err` for what can fail, `err` or nil for what has no value; an error is a text with
    a kind."""
    if language == "js":
        return
    async with world(language) as w:
        look = "local v, err = board.resolve('x') board.setVar('out', {v == nil, err, err.kind, err:upper()})"
        assert await w.out(look) == [True, "no variable 'x'", "validation", "NO VARIABLE 'X'"]
        look = "board.setVar('out', {select('#', host.refuse('forbidden')), (host.refuse('forbidden')).kind})"
        assert await w.out(look) == [1, "forbidden"]
        assert await w.out(
            "board.setVar('out', {select('#', board.setVar('a', 1)), board.setVar('a', 1)})"
        ) == [1]
        assert await w.out("board.setVar('out', select('#', board.open().next()))") == 2
        assert await w.out("board.setVar('out', ('x').kind == nil and ('x').upper ~= nil)") is True


async def test_an_uncaught_error_of_the_host_keeps_its_kind(language: str) -> None:
    """[GR-213] It is the cause of the failure; handed on in Lua by `error(err)` and `assert` as well."""
    uncaught = {
        "js": ["\nhost.fail('conflict')", "\ntry { host.fail('conflict') } catch (e) { throw e }"],
        "lua": [
            "\nhost.fail('conflict')",
            "\nlocal err = host.refuse('conflict') error(err)",
            "\nassert(false, host.refuse('conflict'))",
            "\nlocal err = host.refuse('conflict') error(err, 0)",
        ],
    }
    async with world(language) as w:
        for source in uncaught[language]:
            failure = await w.failure(source)
            assert failure.kind == "conflict"
            assert failure.message in ("node:2: refused by the host", "node: refused by the host")
            assert isinstance(failure.__cause__, ScriptError)
        own = {
            "js": "const e = new Error('x'); e.kind = 'conflict'; throw e",
            "lua": "error({kind = 'conflict'})",
        }
        assert (await w.failure(own)).kind == "internal"


async def test_another_exception_of_the_host_stops_the_script(language: str) -> None:
    """[GR-214] It comes out unchanged, the script cannot catch it, and the child is used again."""
    swallow = {
        "js": "try { host.crash() } catch (e) { board.setVar('a', 1) } finally { board.setVar('a', 2) }",
        "lua": "pcall(host.crash) board.setVar('after', 1)",
    }
    async with world(language) as w:
        with pytest.raises(KeyError, match="a fault of the host"):
            await w.run(swallow)
        assert w.vars == {}
        assert await w.out("board.setVar('out', 1)") == 1


SIGNALS: list[tuple[str, Signal]] = [
    ("done()", Signal("done")),
    ("error('text')", Signal("error", "internal", "text")),
    ("error()", Signal("error", "internal", "")),
    ("interrupt('text')", Signal("interrupt", "custom", "text")),
]
OBJECTS: list[tuple[str, str, dict[str, Any]]] = [
    ("error", "validation", {"message": "m", "detail": {"a": [1]}}),
    ("error", "budget_exceeded", {"message": "m"}),
    ("error", "teapot", {"message": "m"}),
    ("interrupt", "user_input", {"message": "m", "detail": "why"}),
    ("interrupt", "validation", {}),
]


async def test_signals_say_how_a_script_stopped_itself(language: str) -> None:
    """[GR-215] A text or `{kind, message, detail}`; unknown kinds are `internal` and `custom`."""
    async with world(language) as w:
        for call, signal in SIGNALS:
            assert await w.run(f"signal.{call}") == signal
        for type_, kind, more in OBJECTS:
            w.vars["payload"] = {"kind": kind, **more}
            signal = await w.run(f"signal.{type_}(board.getVar('payload'))")
            known = {"teapot": "internal", "validation": "custom" if type_ == "interrupt" else "validation"}
            assert signal is not None and signal.kind == known.get(kind, kind)
            assert (signal.message, signal.detail) == (more.get("message", ""), more.get("detail"))


async def test_a_signal_cannot_be_caught(language: str) -> None:
    """[GR-216] Not by catch, finally, pcall, coroutines or promises: no call reaches the host after it, and
    `exec` returns at once."""
    tries = {
        "js": [
            "try { signal.done() } catch (e) { board.setVar('a', 1) } finally { board.setVar('a', 2) }",
            "for (;;) { try { signal.done() } catch (e) {} }",
            "Promise.resolve().then(() => signal.done()).catch(() => board.setVar('a', 1))",
        ],
        "lua": [
            "pcall(signal.done) board.setVar('a', 1)",
            "while true do pcall(signal.done) end",
            "coroutine.resume(coroutine.create(signal.done)) board.setVar('a', 1)",
        ],
    }
    async with world(language, max_exec_time=20) as w, asyncio.timeout(10):
        for source in tries[language]:
            assert await w.run(source) == Signal("done")
        assert w.asked == []


async def test_handles_call_the_host_back(language: str) -> None:
    """[GR-217] `board.open()` returns an object whose methods reach the host as `h1.next`."""
    use = {
        "js": """
            const h = board.open(); let kind
            try { h.close() } catch (e) { kind = e.kind }
            board.setVar('out', [h.next(5), kind, board.typed().peek()])""",
        "lua": """
            local h = board.open()
            local n, none = h.next(5)
            local err = h:close()
            board.setVar('out', {n, err.kind, (board.typed()).peek()})""",
    }
    async with world(language) as w:
        out = await w.out(use)
        assert out[1] == "conflict" and ("h1.next", [5]) in w.asked and ("h2.peek", []) in w.asked


async def test_no_value_becomes_a_handle(language: str) -> None:
    """[GR-218] Only the host makes handles: a value in their form stays a value."""
    fake = {"id": "host", "methods": [["crash", "value"]], "$handle": "host"}
    use = {
        "js": "const v = board.getVar('v'); board.setVar('out', typeof v.crash)",
        "lua": "local v = board.getVar('v') board.setVar('out', type(v.crash))",
    }
    async with world(language) as w:
        for value in (fake, ["handle", "host", [["crash", "value"]]]):
            w.vars["v"] = value
            assert await w.out(use) in ("undefined", "nil")


async def test_scripts_run_scripts(language: str) -> None:
    """[GR-219] With the same surface, fresh globals and their own config; signals come back, errors throw."""
    async with world(language) as w:
        inner = {
            "js": "board.setVar('inner', [config.n, typeof mine])",
            "lua": "board.setVar('inner', {config.n, type(mine)})",
        }
        await w.run(
            {
                "js": "globalThis.mine = 1; board.setVar('out', runtime.execScript(config, {n: 2}))",
                "lua": "mine = 1 board.setVar('out', runtime.execScript(config, {n = 2}))",
            },
            inner[language],
        )
        assert w.vars["inner"] == [2, "undefined" if language == "js" else "nil"]
        assert w.vars["out"] is None
        outer = {
            "js": "board.setVar('out', runtime.execScript(config))",
            "lua": "local s, err = runtime.execScript(config) assert(not err, err) board.setVar('out', s)",
        }
        assert (await w.out(outer, "signal.done()"))["type"] == "done"
        interrupt = {
            "js": "signal.interrupt({kind: 'user_input'})",
            "lua": "signal.interrupt({kind = 'user_input'})",
        }
        got = await w.out(outer, interrupt[language])
        assert (got["type"], got["kind"]) == ("interrupt", "user_input")
        for source, kind in (
            ("signal.error('x')", "internal"),
            ("host.fail('conflict')", "conflict"),
            ("nosuch()", "internal"),
            ("", "validation"),
        ):
            with pytest.raises(ScriptFailure) as caught:
                await w.run(outer, source)
            assert caught.value.kind == kind, source
        assert await w.out("board.setVar('out', 1)") == 1


async def test_nested_scripts_have_a_limit(language: str) -> None:
    """[GR-220] Four levels below the first, then `not_available`; the time limit is that of the first."""
    deeper = {
        "js": "runtime.execScript(config, config)",
        "lua": "local _, err = runtime.execScript(config, config) if err then error(err) end",
    }[language]
    async with world(language, max_exec_time=0.2) as w:
        with pytest.raises(ScriptFailure, match="at most 4 deep") as caught:
            await w.run(deeper, deeper)
        assert caught.value.kind == "not_available"
        endless = {"js": "while (true) {}", "lua": "while true do end"}[language]
        swallow = {
            "js": "try { runtime.execScript(config) } catch (e) { board.setVar('a', 1) }",
            "lua": "pcall(runtime.execScript, config) board.setVar('a', 1)",
        }
        with pytest.raises(ScriptFailure) as caught:
            await w.run(swallow, endless)
        assert caught.value.kind == "timeout" and "a" not in w.vars
        without = {name: methods for name, methods in SURFACE.items() if name != "runtime"}
        with pytest.raises(ScriptFailure) as caught:
            await w.runtime.exec("node", "runtime.execScript('1')", None, without, w.host)
        assert caught.value.kind == "internal"
