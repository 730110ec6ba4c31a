"""What a script finds and what becomes of its values, in both languages."""

from typing import Any

import pytest

from tests.graph.scripts.world import LANGUAGES, world

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("language", LANGUAGES)]


async def test_every_execution_starts_with_fresh_globals(language: str) -> None:
    """[GR-200] Neither globals nor what was done to the built-in ones are seen by the next script."""
    async with world(language) as w:
        dirt = {
            "js": "globalThis.left = 1; Array.prototype.map = 2; config.a = 5",
            "lua": "left = 1 string.rep = 2 table.insert = nil config.a = 5",
        }
        look = {
            "js": "board.setVar('out', [typeof left, typeof [].map, config.a])",
            "lua": "board.setVar('out', {type(left), type(table.insert), config.a})",
        }
        await w.run(dirt, {"a": 1})
        kinds = ["undefined", "function", 1] if language == "js" else ["nil", "function", 1]
        assert await w.out(look, {"a": 1}) == kinds


async def test_a_source_runs_inside_a_function(language: str) -> None:
    """[GR-201] It may return at the top; in JavaScript a source that is a call already is taken as it is."""
    async with world(language) as w:
        assert (
            await w.run({"js": "board.setVar('a', 1); return 5; board.setVar('b', 1)", "lua": "return 5"})
            is None
        )
        assert "b" not in w.vars
        if language == "js":
            for source in (
                "(function () { board.setVar('out', config) })()",
                "  (() => { board.setVar('out', config) })() // done",
                "(() => board.setVar('out', config))();\nvar more = 1;",
            ):
                assert await w.out(source, 7) == 7
            failure = await w.failure("(() => {\n  nosuch()\n})()")
            assert failure.message == "node:2: ReferenceError: nosuch is not defined"


VALUES: list[tuple[str, str, Any]] = [
    ("2.0", "2.0", 2),
    ("-7", "-7", -7),
    ("10 / 4", "10 / 4", 2.5),
    ("0.1 + 0.2", "0.1 + 0.2", 0.1 + 0.2),
    ("2 ** 53 - 1", "(1 << 53) - 1", 2**53 - 1),
    ("1e300", "1e300", 1e300),
    ("NaN", "0 / 0", None),
    ("-Infinity", "-math.huge", None),
    ("undefined", "nil", None),
    ("true", "true", True),
    ("''", "''", ""),
    (r"'ü\n\u0000\u2028\"\\'", r"'ü\n\0\u{2028}\"\\'", 'ü\n\x00\u2028"\\'),
    ("'🙂'", "'🙂'", "🙂"),
    ("[1, undefined, 3]", "{1, nil, 3}", [1, None, 3]),
    ("[, 'b']", "{[2] = 'b'}", [None, "b"]),
    ("{a: {b: [true]}}", "{a = {b = {true}}}", {"a": {"b": [True]}}),
    ("{'10': 'a'}", "{[10] = 'a'}", {"10": "a"}),
]
OWN: dict[str, list[tuple[str, Any]]] = {
    "js": [
        ("[1, [2, 'x'], {a: null}]", [1, [2, "x"], {"a": None}]),
        ("[]", []),
        ("({})", {}),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
    ],
    "lua": [
        ("{1, {2, 'x'}, {b = 1}}", [1, [2, "x"], {"b": 1}]),
        ("{}", {}),
        ("{1, 2, a = 3}", {"1": 1, "2": 2, "a": 3}),
        ("math.maxinteger", 2**63 - 1),
    ],
}


async def test_values_are_json(language: str) -> None:
    """[GR-202] Whole numbers are ints, however written; undefined, nil, NaN and infinities are null."""
    async with world(language) as w:
        same = [((js, lua)[language == "lua"], value) for js, lua, value in VALUES]
        for source, value in [*same, *OWN[language]]:
            got = await w.out(f"board.setVar('out', {source})")
            assert got == value and type(got) is type(value), source


async def test_what_the_host_answers_comes_back_the_same(language: str) -> None:
    """[GR-203] Through a script and back: numbers, texts, empty lists and objects; in Lua null is nil."""
    async with world(language) as w:
        values: list[Any] = [0, -1, 2**53, 1.5, "", "ü\u2028\n", True, False, [], {}, [[]], {"a": []}, None]
        values += [[1, None, 3], {"ключ": {"x": [1.25, "y"]}}, "a\ud800b" if language == "js" else "b"]
        for value in values:
            w.vars["in"] = value
            got = await w.out("board.setVar('out', board.getVar('in'))")
            assert got == value and type(got) is type(value)


async def test_what_is_no_json_is_refused_by_name(language: str) -> None:
    """[GR-204] Circles, functions in Lua, big integers in JavaScript: `validation`, the host is not asked."""
    bad = {
        "js": ["const a = []; a.push(a); board.setVar('out', a)", "board.setVar('out', 1n)"],
        "lua": [
            "local a = {} a.a = a local err = board.setVar('out', a) error(err)",
            "error(board.setVar('out', print))",
            "error(board.setVar('out', {[true] = 1}))",
            "error(board.setVar('out', {[1.5] = 1}))",
            "error(board.setVar('out', {a = 1, ['1'] = 2, 3}))",
            "error(board.setVar('out', '\\xff'))",
        ],
    }
    async with world(language) as w:
        for source in bad[language]:
            failure = await w.failure(source)
            assert failure.kind == "validation", source
            assert failure.message.startswith("node:1: board.setVar: "), failure.message
        assert w.asked == []


async def test_messages_are_bounded(language: str) -> None:
    """[GR-205] 10 MiB, 50 000 values and 200 levels in one message, both ways; then `validation`."""
    big = {
        "js": [
            "board.setVar('x', 'ü'.repeat(6e6))",
            "board.setVar('x', Array(60000).fill(0))",
            "let a = []; for (let i = 0; i < 300; i++) a = [a]; board.setVar('x', a)",
        ],
        "lua": [
            "error(board.setVar('x', string.rep('ü', 6000000)))",
            "local t = {} for i = 1, 60000 do t[i] = 0 end error(board.setVar('x', t))",
            "local t = {} for i = 1, 300 do t = {t} end error(board.setVar('x', t))",
        ],
    }
    said = ["larger than 10 MiB", "more than 50000 values", "deeper than 200"]
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    ring: list[Any] = []
    ring.append(ring)
    async with world(language) as w:
        for source, text in zip(big[language], said, strict=True):
            failure = await w.failure(source)
            assert failure.kind == "validation" and text in failure.message
        assert w.asked == []
        commas = ",[{" * 60_000
        assert await w.out("board.setVar('out', config)", {"text": commas}) == {"text": commas}
        for value, text in (
            ("x" * 11_000_000, said[0]),
            ([0] * 60_000, said[1]),
            (deep, said[2]),
            (ring, said[2]),
        ):
            w.vars["big"] = value
            failure = await w.failure("board.getVar('big')")
            assert failure.kind == "validation" and text in failure.message
            assert "board.getVar: the result" in failure.message
        for value in (float("nan"), {1, 2}, b"x"):
            w.vars["odd"] = value
            failure = await w.failure("board.getVar('odd')")
            assert failure.kind == "validation" and "board.getVar: the result is not JSON" in failure.message


async def test_a_start_that_is_no_json_fails_before_any_child(language: str) -> None:
    """[GR-206] A config that is no JSON, or too large, is `validation`; built-in globals cannot be taken."""
    async with world(language) as w:
        for config in ({1, 2}, "x" * 11_000_000):
            with pytest.raises(Exception, match="node: what the script starts with") as caught:
                await w.run("", config)
            assert getattr(caught.value, "kind", None) == "validation"
        for name in ("config", "signal"):
            with pytest.raises(ValueError, match=f"{name!r}: it is built in"):
                await w.runtime.exec("node", "", None, {name: ["x"]}, w.host)
            with pytest.raises(ValueError, match=f"{name!r}: it is built in"):
                await w.runtime.exec("node", "", None, {}, w.host, {name: {"x": 1}})


async def test_globals_hold_their_methods_and_constants(language: str) -> None:
    """[GR-207] Constants stand beside the methods, or alone; what is not listed is not there."""
    async with world(language) as w:
        look = {
            "js": "board.setVar('out', [board.MAIN_CHANNEL, limits.most, typeof board.drop, typeof tools])",
            "lua": "board.setVar('out', {board.MAIN_CHANNEL, limits.most, type(board.drop), type(tools)})",
        }
        none = "undefined" if language == "js" else "nil"
        assert await w.out(look) == ["__main_channel", 3, none, none]
        assert await w.runtime.exec("node", "return 1", None, {}, w.host) is None
        no_host = {"js": "board.getVar('x')", "lua": "board.getVar('x')"}[language]
        with pytest.raises(Exception, match="node:1") as caught:
            await w.runtime.exec("node", no_host, None, {}, w.host)
        assert getattr(caught.value, "kind", None) == "internal"


async def test_lua_methods_may_be_called_with_a_colon(language: str) -> None:
    """[GR-208] `board:getVar(x)` is `board.getVar(x)`; every other argument counts, also nil at the end."""
    async with world(language) as w:
        w.vars["x"] = 4
        if language == "lua":
            assert await w.out("board:setVar('out', board:getVar('x'))") == 4
            await w.run("board.getVar('x', nil, nil)")
            await w.run("board.getVar('x', board.resolve('y'))")
            asked = [args for path, args in w.asked if path == "board.getVar"]
            assert asked == [["x"], ["x", None, None], ["x", None, "no variable 'y'"]]
        else:
            await w.run("board.getVar('x', undefined)")
            assert w.asked[-1] == ("board.getVar", ["x", None])


async def test_promises_are_settled_before_the_end(language: str) -> None:
    """[GR-209] JavaScript: what promises left to do is done, a returned promise that fails is a failure."""
    if language == "lua":
        return
    async with world(language) as w:
        await w.run("Promise.resolve().then(() => board.setVar('a', 1)).then(() => board.setVar('b', 2))")
        assert w.vars == {"a": 1, "b": 2}
        await w.run("return (async () => { await null; board.setVar('c', 3) })()")
        assert w.vars["c"] == 3
        failure = await w.failure("return (async () => {\n await null\n host.fail('conflict')\n})()")
        assert (failure.kind, failure.message) == ("conflict", "node:3: refused by the host")
        failure = await w.failure("return Promise.reject(new RangeError('late'))")
        assert failure.message == "node:1: RangeError: late"
