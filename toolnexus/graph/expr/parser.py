"""Tokens → a compiled expression. The grammar is here; what things mean is asked of the other modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from toolnexus.graph.expr import members, operators, predicates
from toolnexus.graph.expr.errors import ExprEvalError, ExprSyntaxError
from toolnexus.graph.expr.functions import BUILTINS
from toolnexus.graph.expr.lexer import Reader, Token
from toolnexus.graph.expr.natures import BYTES, INT, UNKNOWN, Function, Nature, unknown
from toolnexus.graph.expr.nodes import MAX_DEPTH, Node, Refused, literal, over
from toolnexus.graph.expr.predicates import PREDICATES, Slots
from toolnexus.graph.expr.values import Frame, wrap

_UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
_BINARY = {
    **{"|": 0, "or": 10, "||": 10, "and": 15, "&&": 15},
    **dict.fromkeys(("==", "!=", "<", ">", ">=", "<=", "in"), 20),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith"), 20),
    **{"..": 25, "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "**": 100, "^": 100, "??": 500},
}
_COMPARISONS = frozenset(("<", ">", "<=", ">="))
_NEGATED = frozenset(("in", "matches", "contains", "startsWith", "endsWith"))
_CONSTANTS = {"true": True, "false": False, "nil": None}
_FOREIGN = frozenset(("True", "False", "None", "null", "undefined"))
_FIRST_SLOT = 2
_BUILTIN = {
    name: Nature("func", f"function {name}", function=Function(name)) for name in (*BUILTINS, *PREDICATES)
}


class Scope(NamedTuple):
    """What `#` means inside one predicate."""

    item: Nature
    names: tuple[str, ...]
    slots: Slots


class Compiled(NamedTuple):
    """A compiled expression, the slots that it needs, the variables that it reads."""

    node: Node
    slots: int
    names: tuple[str, ...]
    suspicious: tuple[str, ...]


def compile_text(source: str) -> Compiled:
    """Compile `source`. Raises `ExprSyntaxError`."""
    parser = _Parser(source)
    try:
        node = parser.program()
    except Refused as error:
        raise ExprSyntaxError(str(error), source, parser.place) from None
    except RecursionError:
        raise ExprSyntaxError(f"nested deeper than {MAX_DEPTH}", source, parser.place) from None
    names = tuple(parser.names)
    return Compiled(node, parser.slots, names, tuple(name for name in names if name in _FOREIGN))


class _Parser(Reader):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.place = 0
        self.depth = 0
        self.unchecked = 0
        self.slots = 0
        self.names: dict[str, None] = {}
        self.scopes: list[Scope] = []
        self.variables: list[tuple[str, int, Nature]] = []

    def made(self, token: Token, build: Callable[..., Node], *parts: Any, **options: Any) -> Node:
        """What `build` makes; `token` is where an error is shown.

        The arguments of an unknown function and an index of `$env` are not checked before the run, as in
        expr-lang: there, what is refused fails when it runs.
        """
        self.place = token.position
        try:
            return build(*parts, **options)
        except Refused as error:
            if not self.unchecked:
                raise
            return _failing(str(error))

    def slot(self) -> int:
        self.slots += 1
        return _FIRST_SLOT + self.slots - 1

    def program(self) -> Node:
        node = self.sequence()
        if self.token.kind != "end":
            raise self.unexpected()
        return node

    def sequence(self) -> Node:
        nodes = [self.expression()]
        while self.skip(";") and self.token.kind != "end":
            nodes.append(self.expression())
        if len(nodes) == 1:
            return nodes[0]
        *before, last = nodes
        runs, run = tuple(node.run for node in before), last.run

        def run_all(frame: Frame) -> Any:
            for one in runs:
                one(frame)
            return run(frame)

        return Node(run_all, last.nature, over(*nodes))

    def expression(self, precedence: int = 0) -> Node:
        self.deeper()
        if precedence == 0 and self.sees("let"):
            node = self.declaration()
        elif precedence == 0 and self.sees("if"):
            node = self.branches()
        else:
            node = self.operations(self.primary(), precedence)
            while precedence == 0 and self.sees("?"):
                node = self.ternary(node)
        self.depth -= 1
        return node

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}", self.token)

    def operations(self, node: Node, precedence: int) -> Node:
        previous = ""
        while self.token.kind == "operator":
            token = self.token
            negated = token.value == "not"
            if negated:
                token = self.tokens[self.at + 1]
                if token.value not in _NEGATED or token.kind != "operator":
                    self.next()
                    raise self.unexpected()
            strength = _BINARY.get(token.value, -1)
            if strength < precedence:
                break
            if negated:
                self.next()
            self.next()
            if token.value == "|":
                node = self.call(self.name(), node)
            elif previous == "??" and token.value != "??":
                raise self.error(f"{token.value} after ?? needs parentheses around one of them", token)
            elif token.value in _COMPARISONS:
                node = self.comparison(node, token)
            else:
                right = self.expression(strength + (token.value not in ("**", "^")))
                node = self.made(token, operators.binary, token.value, node, right)
                if negated:
                    node = operators.unary("not", node)
            previous = token.value
        return node

    def comparison(self, left: Node, token: Token) -> Node:
        whole: Node | None = None
        while True:
            right = self.expression(_BINARY["<"] + 1)
            one = self.made(token, operators.binary, token.value, left, right)
            whole = one if whole is None else self.made(token, operators.binary, "&&", whole, one)
            left, token = right, self.token
            if token.kind != "operator" or token.value not in _COMPARISONS:
                return whole
            self.next()

    def declaration(self) -> Node:
        self.next()
        name = self.name()
        self.expect("=")
        value = self.expression()
        self.expect(";")
        if name.value in _BUILTIN:
            raise self.error(f"{name.value} is a built-in function; take another name", name)
        if any(name.value == known for known, _, _ in self.variables):
            raise self.error(f"{name.value} is declared already", name)
        slot = self.slot()
        self.variables.append((name.value, slot, value.nature))
        body = self.sequence()
        self.variables.pop()
        compute, run = value.run, body.run

        def run_with(frame: Frame) -> Any:
            frame[slot] = compute(frame)
            return run(frame)

        self.place = name.position
        return Node(run_with, body.nature, over(value, body))

    def branches(self) -> Node:
        start = self.next()
        test = self.expression()
        self.expect("{")
        yes = self.sequence()
        self.expect("}")
        self.expect("else")
        if self.sees("if"):
            self.deeper()
            no = self.branches()
            self.depth -= 1
        else:
            self.expect("{")
            no = self.sequence()
            self.expect("}")
        return self.made(start, members.conditional, test, yes, no)

    def ternary(self, test: Node) -> Node:
        mark = self.next()
        if self.skip(":"):
            yes = test
        else:
            yes = self.expression()
            self.expect(":")
        no = self.expression()
        return self.made(mark, members.conditional, test, yes, no)

    def primary(self) -> Node:
        token = self.token
        if token.kind == "operator":
            if token.value in _UNARY:
                self.next()
                operand = self.expression(_UNARY[token.value])
                return self.postfix(self.made(token, operators.unary, token.value, operand))
            if self.scopes and token.value in ("#", "."):
                return self.postfix(self.pointer())
            if token.value == "::":
                self.next()
                return self.postfix(self.call(self.name()))
        if token.kind == "bracket" and token.value == "(":
            self.next()
            node = self.sequence()
            self.expect(")")
            return self.postfix(node)
        return self.atom()

    def pointer(self) -> Node:
        token = self.token
        scope = self.scopes[-1]
        name = ""
        if token.value == "#":
            self.next()
            if self.token.kind == "name":
                name = self.next().value
        if name and name not in scope.names:
            raise self.error(f"#{name} is not known here", token)
        slots = scope.slots
        slot = {"": slots.item, "index": slots.place, "acc": slots.total}[name]
        nature = {"": scope.item, "index": INT}.get(name, UNKNOWN)
        return Node(lambda frame: frame[slot], nature)

    def atom(self) -> Node:
        token = self.token
        if token.kind == "name":
            self.next()
            if token.value in _CONSTANTS:
                return literal(_CONSTANTS[token.value])
            node = self.call(token) if self.sees("(") else self.identifier(token)
        elif token.kind == "number":
            self.next()
            return literal(self.number(token))
        elif token.kind == "string":
            self.next()
            node = literal(token.value)
        elif token.kind == "bytes":
            self.next()
            data = token.value.encode("utf-8", "surrogatepass")
            node = Node(lambda frame: data, BYTES)
        elif token.kind == "bracket" and token.value == "[":
            node = self.array()
        elif token.kind == "bracket" and token.value == "{":
            node = self.mapping()
        else:
            raise self.unexpected()
        return self.postfix(node)

    def number(self, token: Token) -> int | float:
        digits = token.value.replace("_", "").lower()
        try:
            if digits[:2] == "0x":
                value: int | float = int(digits, 16)
            elif "." in digits or "e" in digits:
                value = float(digits)
            else:
                value = int(digits, {"0b": 2, "0o": 8}.get(digits[:2], 10))
        except ValueError:
            raise self.error(f"{token.value[:40]!r} is no number", token) from None
        if value in (float("inf"),) or (type(value) is int and wrap(value) != value):
            raise self.error(f"{token.value[:40]} is too large", token)
        return value

    def identifier(self, token: Token) -> Node:
        name = token.value
        declared = next((one for one in reversed(self.variables) if one[0] == name), None)
        if declared is not None:
            _, slot, nature = declared
            return Node(lambda frame: frame[slot], nature)
        if name == "$env":
            return Node(lambda frame: frame[0], UNKNOWN, 1, "env")
        self.names[name] = None
        return Node(lambda frame: frame[0].get(name), _BUILTIN.get(name, UNKNOWN))

    def array(self) -> Node:
        start = self.next()
        items: list[Node] = []
        while not self.sees("]"):
            if items:
                self.expect(",")
                if self.sees("]"):
                    break
            items.append(self.expression())
        self.expect("]")
        return self.made(start, members.array, items)

    def mapping(self) -> Node:
        start = self.next()
        pairs: list[tuple[Node, Node]] = []
        while not self.sees("}"):
            if pairs:
                self.expect(",")
                if self.sees("}"):
                    break
            if self.token.kind in ("name", "number", "string"):
                key = literal(self.next().value)
            elif self.sees("("):
                key = self.expression()
            else:
                raise self.unexpected("a key is a name, a string, a number, or an expression in parentheses")
            self.expect(":")
            pairs.append((key, self.expression()))
        self.expect("}")
        return self.made(start, members.mapping, pairs)

    def call(self, token: Token, piped: Node | None = None) -> Node:
        if token.value in PREDICATES:
            return self.predicate_call(token, piped)
        if token.value not in BUILTINS:
            callee = self.identifier(token)
            return self.made(token, members.call, callee, self.arguments(piped, callee))
        builtin = BUILTINS[token.value]
        return self.made(token, members.call_builtin, builtin.check, builtin.run, self.arguments(piped))

    def arguments(self, piped: Node | None = None, callee: Node | None = None) -> list[Node]:
        found: list[Node] = []
        free = callee is not None and unknown(callee.nature)
        self.unchecked += free
        self.expect("(")
        while not self.sees(")"):
            if found:
                self.expect(",")
                if self.sees(")"):
                    break
            found.append(self.expression())
        self.expect(")")
        self.unchecked -= free
        return found if piped is None else [piped, *found]

    def predicate_call(self, token: Token, items: Node | None) -> Node:
        kind = PREDICATES[token.value]
        self.expect("(")
        piped = items is not None
        if items is None:
            if self.sees(")"):
                raise self.unexpected("the items are missing")
            items = self.expression()
        items = self.made(token, predicates.items_of, token.value, items)
        slots = Slots(self.slot(), self.slot(), self.slot())
        elem = items.nature.elem if items.nature.kind == "array" else None
        test = last = None
        if not kind.bare and self.sees(")"):
            raise self.unexpected("the predicate is missing")
        if not self.sees(")"):
            if not piped:
                self.expect(",")
            test = self.predicate(Scope(elem or UNKNOWN, kind.names, slots))
        if kind.third and not self.sees(")"):
            self.expect(",")
            last = self.expression()
        self.skip(",")
        self.expect(")")
        return self.made(token, predicates.apply, token.value, items, test, last, slots)

    def predicate(self, scope: Scope) -> Node:
        braces = self.skip("{")
        self.scopes.append(scope)
        node = self.sequence() if braces else self.expression()
        self.scopes.pop()
        if braces:
            self.expect("}")
        elif self.sees(";"):
            raise self.unexpected("put the predicate into { and }")
        return node

    def postfix(self, node: Node) -> Node:
        while True:
            token = self.token
            if token.kind == "operator" and token.value in (".", "?."):
                self.next()
                if token.value == "?." and self.sees("["):
                    node = self.index(node, optional=True)
                else:
                    node = self.property(node, optional=token.value == "?.")
            elif token.kind == "bracket" and token.value == "[":
                node = self.index(node, optional=False)
            else:
                return node

    def property(self, base: Node, *, optional: bool) -> Node:
        token = self.token
        if token.kind != "name" and not (token.kind == "operator" and token.value.isalpha()):
            raise self.unexpected("the name of a field is missing")
        self.next()
        raw = base.value if base.form == "chain" else None
        if base.form == "env":
            self.names[token.value] = None
        node = self.made(token, members.member, base, literal(token.value), optional=optional, raw=raw)
        if self.sees("("):
            node = self.made(token, members.call, node, self.arguments(callee=node))
        return members.chained(node) if optional or raw is not None else node

    def index(self, base: Node, *, optional: bool) -> Node:
        bracket = self.next()
        free = base.form == "env"
        self.unchecked += free
        start = None if self.sees(":") else self.expression()
        self.unchecked -= free
        if self.skip(":"):
            stop = None if self.sees("]") else self.expression()
            self.expect("]")
            return self.made(bracket, members.sliced, base, start, stop)
        self.expect("]")
        if start is None:
            raise self.unexpected()
        if free and start.form == "literal" and type(start.value) is str:
            self.names[start.value] = None
        node = self.made(bracket, members.member, base, start, optional=optional)
        return members.chained(node) if optional else node


def _failing(why: str) -> Node:
    def run(frame: Frame) -> Any:
        raise ExprEvalError(why)

    return Node(run, UNKNOWN)
