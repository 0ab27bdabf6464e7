"""Small changes to a module, one at a time: mistakes of one sign, bound, default or order."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator

_PAIRS = (
    "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, And Or, Add Sub, Mult Div, BitAnd BitOr, LShift RShift"
)
OTHER = {}
for _pair in _PAIRS.split(", "):
    _one, _two = (getattr(ast, name) for name in _pair.split())
    OTHER |= {_one: _two, _two: _one}
OTHER |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}

Place = tuple[ast.AST, str, int | None, str]  # parent, field, position in a list, function


def changed(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901  (a table)
    """What a node may become."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (ast.Constant(value + step) for step in (1, -1))
        case ast.Compare(ops=[first, *_]):
            yield _with(node, ops=[OTHER[type(first)](), *node.ops[1:]])
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in OTHER:
            yield _with(node, op=OTHER[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Compare):
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.AST() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Call(args=[one, two, *_]) if ast.dump(one) != ast.dump(two) and not _commutes(node.func):
            yield _with(node, args=[two, one, *node.args[2:]])
        case ast.Continue():
            yield ast.Break()


def _commutes(function: ast.expr) -> bool:
    """Then swapped arguments are no mistake."""
    return ast.unparse(function).rpartition(".")[2] in {"max", "min", "maximum", "minimum"}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    made.__dict__.update(fields)
    return made


def places(node: ast.AST, scope: tuple[str, ...] = ()) -> Iterator[Place]:
    """Every node that may change; annotations, decorators, `raise` and formatted text stay as they are."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = (*scope, node.name)
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "exc"} or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: a guard that no input reaches
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield node, field, at, ".".join(scope) or "(module)"
                yield from places(child, scope)


def mutants_of(source: str) -> Iterator[tuple[str, str, str]]:
    """(function, change, changed source) for each change; it is named by its text, not by its line."""
    tree = ast.parse(source)
    seen: Counter[tuple[str, str]] = Counter()
    for parent, field, at, function in list(places(tree)):
        node = getattr(parent, field) if at is None else getattr(parent, field)[at]
        for new in changed(node):
            before, after = (re.sub(r"\s+", " ", ast.unparse(each))[:80] for each in (node, new))
            change = f"{before} -> {after}"
            seen[function, change] += 1
            number = seen[function, change]
            _put(parent, field, at, new)
            yield (
                function,
                change if number == 1 else f"{change} #{number}",
                ast.unparse(ast.fix_missing_locations(tree)),
            )
            _put(parent, field, at, node)


def _put(parent: ast.AST, field: str, at: int | None, node: ast.AST) -> None:
    if at is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[at] = node
