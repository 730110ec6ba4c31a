"""The mutants of a file: each is one small change of its syntax tree.

Left alone, because no test shall hold it: docstrings and other texts (a string with a space, a part of an
f-string), what is logged or warned, `__repr__`, annotations, what only type checkers read, `__slots__` and
other dunder names, decorators and base classes. Of an error all but the wording is mutated.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

Apply = Callable[[], None]

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.Pow: ast.Mult,
}
_TYPES = {"TypeVar", "ContextKey", "ContextVar", "ParamSpec", "NewType", "cast", "getLogger", "isinstance"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it does, and the tree of the file that `apply` changes."""

    file: str
    line: int
    function: str
    """The outermost function, with its classes; "" for what runs when the module is loaded."""
    kind: str
    text: str
    """The line as it was and what the change is, for people."""
    apply: Apply
    tree: ast.Module

    @property
    def id(self) -> str:
        """The same in the next run, as long as the file is the same."""
        return f"{self.file}:{self.line} {self.kind}: {self.text}"


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file below `root`, in the order of its lines."""
    found = _Finder(file, ast.parse((root / file).read_text())).all
    seen: Counter[str] = Counter()
    for at, mutant in enumerate(found):  # two that look the same on one line are told apart
        seen[mutant.id] += 1
        if seen[mutant.id] > 1:
            found[at] = replace(mutant, text=f"{mutant.text} ({seen[mutant.id]})")
    return found


class _Finder:
    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file = file
        self._tree = tree
        self._where: list[str] = []
        self._inside = 0
        self.all: list[Mutant] = []
        self._block(tree, "body")

    def _add(self, node: ast.AST, kind: str, before: str, after: str, apply: Apply) -> None:
        line: int = getattr(node, "lineno", 0)
        name = ".".join(self._where) if self._inside else ""
        text = f"`{_short(before)}` → `{_short(after)}`"
        self.all.append(Mutant(self._file, line, name, kind, text, apply, self._tree))

    def _swap(
        self, holder: Any, field: str, kind: str, new: ast.expr, index: int | None = None, text: str = ""
    ) -> None:
        """A mutant that has `new` in place of an expression."""
        old = getattr(holder, field) if index is None else getattr(holder, field)[index]
        ast.copy_location(new, old)
        ast.fix_missing_locations(new)

        def apply() -> None:
            if index is None:
                setattr(holder, field, new)
            else:
                getattr(holder, field)[index] = new

        self._add(old, kind, ast.unparse(old), text or ast.unparse(new), apply)

    # statements

    def _block(self, holder: Any, field: str) -> None:
        body: list[ast.stmt] = getattr(holder, field)
        for index, statement in enumerate(body):
            self._statement(body, index, statement)

    def _instead(self, body: list[ast.stmt], index: int, kind: str, new: ast.stmt) -> None:
        """A mutant that has `new` in place of a statement."""
        old = body[index]
        # what is never run keeps the names of the function what they are: its own, or those of one around it
        either = ast.copy_location(ast.If(ast.Constant(False), [old], [new]), old)
        ast.copy_location(new, old)
        ast.fix_missing_locations(either)

        def apply() -> None:
            body[index] = either

        self._add(old, kind, ast.unparse(old), ast.unparse(new), apply)

    def _statement(self, body: list[ast.stmt], index: int, node: ast.stmt) -> None:
        match node:
            case ast.ClassDef():
                if not any(ast.unparse(base).startswith("Protocol") for base in node.bases):
                    self._where.append(node.name)
                    self._block(node, "body")
                    self._where.pop()
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.If() if _for_checkers(node.test):
                pass
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                pass
            case ast.Expr() if _is_noted(node.value):
                pass
            case ast.Assign() | ast.AnnAssign() if _is_declared(node):
                pass
            case _ if not self._inside:
                self._constants(node)
            case _:
                self._changed(body, index, node)
                self._parts(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in {"__repr__", "__init_subclass__"} or any(
            ast.unparse(decorator) == "overload" for decorator in node.decorator_list
        ):
            return
        inside, self._inside = self._inside, 0
        if not inside:
            self._where.append(node.name)
        for default in (node.args.defaults, node.args.kw_defaults):
            for at, value in enumerate(default):
                if value is not None:
                    holder = ast.Tuple(default, ast.Load())  # type: ignore[arg-type]
                    self._constant(holder, "elts", value, at)
        self._inside = inside + 1
        self._block(node, "body")
        self._inside = inside
        if not inside:
            self._where.pop()

    def _changed(self, body: list[ast.stmt], index: int, node: ast.stmt) -> None:
        """What is done to a whole statement."""
        match node:
            case ast.Expr() if not isinstance(node.value, ast.Yield | ast.YieldFrom):
                self._instead(body, index, "call removed", ast.Pass())
            case ast.Raise():
                self._instead(body, index, "raise removed", ast.Pass())
            case ast.Delete():
                self._instead(body, index, "del removed", ast.Pass())
            case ast.Break():
                self._instead(body, index, "break", ast.Continue())
            case ast.Continue():
                self._instead(body, index, "continue", ast.Break())
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                self._instead(body, index, "return", ast.Return(ast.Constant(None)))
            case ast.AugAssign():
                plain = ast.Assign([node.target], node.value)
                self._instead(body, index, "assignment", plain)
                if other := _COMPUTED.get(type(node.op)):
                    self._instead(body, index, "operator", ast.AugAssign(node.target, other(), node.value))
            case ast.Assign() if not isinstance(node.value, ast.Constant) and not isinstance(
                node.targets[0], ast.Tuple
            ):
                self._instead(body, index, "assignment", ast.Assign(node.targets, ast.Constant(None)))
            case ast.AnnAssign(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                self._instead(body, index, "assignment", ast.Assign([node.target], ast.Constant(None)))
            case ast.With() | ast.AsyncWith() if all(item.optional_vars is None for item in node.items):
                self._instead(body, index, "with removed", ast.If(ast.Constant(True), node.body, []))
            case _:
                pass

    def _parts(self, node: ast.AST) -> None:
        """The expressions and blocks of a node inside a function."""
        in_raise = isinstance(node, ast.Raise)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "ctx", "op", "ops", "targets", "pattern"}:
                continue
            if field == "target" and isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                continue
            if isinstance(value, list):
                self._list(node, field, cast("list[Any]", value), in_raise)
            elif isinstance(value, ast.expr):
                self._expression(node, field, value, None, in_raise)

    def _list(self, node: ast.AST, field: str, values: list[Any], in_raise: bool) -> None:
        for index, value in enumerate(values):
            if isinstance(value, ast.stmt):
                self._statement(values, index, value)
            elif isinstance(value, ast.expr):
                self._expression(node, field, value, index, in_raise)
            elif isinstance(value, ast.AST):  # handlers, cases, items, generators, keywords
                self._parts(value)

    # expressions

    def _expression(
        self, holder: Any, field: str, node: ast.expr, index: int | None = None, worded: bool = False
    ) -> None:
        """The mutants of an expression and of all below; strings of a `worded` one are no mutants."""

        def swap(kind: str, new: ast.expr, text: str = "") -> None:
            self._swap(holder, field, kind, new, index, text)

        if field == "test" or (field == "ifs" and isinstance(holder, ast.comprehension)):
            if not isinstance(node, ast.Compare | ast.Constant) and not _is_not(node):
                swap("condition", ast.UnaryOp(ast.Not(), node))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Subscript) and _is_type(node)):
            return
        if isinstance(node, ast.Constant):
            if not (worded and isinstance(node.value, str)):
                self._constant(holder, field, node, index)
            return
        if isinstance(node, ast.Call):
            self._call(node, swap, worded)
            return
        for kind, new in _others(node):
            swap(kind, new)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                self._expression(node, name, value, None, worded)
            elif isinstance(value, list):
                self._list(node, name, cast("list[Any]", value), worded)

    def _call(self, node: ast.Call, swap: Callable[..., None], worded: bool) -> None:
        name = ast.unparse(node.func).rsplit(".", 1)[-1]
        self._expression(node, "func", node.func)
        if name in _TYPES or _is_noted(node):
            return
        error = worded and name[:1].isupper()
        for at, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                left = [*node.keywords[:at], *node.keywords[at + 1 :]]
                if not error:
                    swap(
                        "argument removed",
                        ast.Call(node.func, node.args, left),
                        f"without {ast.unparse(keyword)}",
                    )
                self._expression(keyword, "value", keyword.value, None, worded)
        for at, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                self._expression(argument, "value", argument.value, None, worded)
                continue
            self._expression(node, "args", argument, at, worded)

    def _constant(self, holder: Any, field: str, node: ast.expr, index: int | None) -> None:
        if not isinstance(node, ast.Constant):
            return
        value: Any = node.value
        if isinstance(value, bool):
            new: Any = not value
        elif isinstance(value, int | float):
            new = value + 1
        elif isinstance(value, str) and not any(c.isspace() for c in value):
            new = f"XX{value}XX"
        else:
            return
        self._swap(holder, field, "constant", ast.Constant(new), index)

    def _constants(self, node: ast.stmt) -> None:
        """What stands in a module or class: its constants."""
        for holder in ast.walk(node):
            if isinstance(holder, ast.JoinedStr | ast.FormattedValue):
                continue
            for field, value in ast.iter_fields(holder):
                if field == "annotation":
                    continue
                if isinstance(value, ast.expr):
                    self._constant(holder, field, value, None)
                elif isinstance(value, list):
                    for at, each in enumerate(cast("list[Any]", value)):
                        if isinstance(each, ast.expr):
                            self._constant(holder, field, each, at)


def _others(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What an expression may be in place of what it is."""
    match node:
        case ast.Compare():
            for at, op in enumerate(node.ops):
                ops = [*node.ops[:at], _COMPARED[type(op)](), *node.ops[at + 1 :]]
                yield "comparison", ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", node.operand
        case ast.BinOp() if (new := _COMPUTED.get(type(node.op))) and not _is_text(node):
            yield "operator", ast.BinOp(node.left, new(), node.right)
        case ast.Lambda():
            yield "lambda", ast.Lambda(node.args, ast.Constant(None))
        case _:
            pass


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else f"{text[:89]}…"


def _for_checkers(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _is_noted(node: ast.expr) -> bool:
    """What is logged or warned."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("logger.", "warnings.warn"))


def _is_declared(node: ast.Assign | ast.AnnAssign) -> bool:
    """Names for type checkers, `__slots__`, loggers."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if any(isinstance(each, ast.Name) and each.id.startswith("__") for each in targets):
        return True
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func).rsplit(".", 1)[-1] in _TYPES


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_text(node: ast.BinOp) -> bool:
    """Strings that are put together."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_type(node: ast.Subscript) -> bool:
    """`dict[str, int]` as a value."""
    return isinstance(node.value, ast.Name) and node.value.id in {
        "dict",
        "list",
        "tuple",
        "set",
        "type",
        "deque",
    }


def files(root: Path) -> Iterator[str]:
    """The files of the two folders."""
    for folder in ("engine", "runtime"):
        for file in sorted((root / "toolnexus" / folder).rglob("*.py")):
            yield str(file.relative_to(root))
