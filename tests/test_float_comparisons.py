"""No test holds floats that depend on the CPU to be equal.

A score of a network differs by up to 1e-6 between AVX-512, AVX2 and no vector instructions, and a
statistic by 1e-15. So ``==`` between them holds on the machine of its author only. The check reads
the syntax of every test and follows floats of a model from where they arise (SOURCES) through
names, containers and helper functions to a comparison. Bytes are compared as bytes: a test of a
resumed run reads both files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from typing import TypeGuard

TESTS = Path(__file__).parent
NUMERIC = ("models", "training", "inference", "eval", "stats")  # folders
# Attributes and keys that hold floats of a model, and methods that return some.
SOURCES = {
    "scores",
    "distributions",
    "contributions",
    "logprobs",
    "raw",
    "logits",
    "spread",
}
SOURCES |= {"last_hidden_state", "expected", "interval"}
METHODS = {
    "score",
    "embed",
    "embed_texts",
    "in_context",
    "last_vectors",
    "sequence_vectors",
}
METHODS |= {
    "piece_sums",
    "units",
    "probabilities",
    "loglikelihood",
    "predict",
    "predict_proba",
}
# Of Contributions: floats if the object before the dot is from a model.
ACCOUNT = {"value", "turns", "baseline"}
# Of an estimate, in float64: the default tolerance of approx is wide enough.
ESTIMATE = {"value", "low", "high", "p_value", "statistic"}
STATISTICS = ("eval", "stats")
LABELS = {"id", "turn"}  # keys without floats
# Functions and methods whose result has the floats of their arguments.
PASSING = {
    "list",
    "dict",
    "tuple",
    "sorted",
    "set",
    "float",
    "min",
    "max",
    "sum",
    "next",
    "iter",
}
PASSING |= {
    "zip",
    "array",
    "asarray",
    "tolist",
    "values",
    "items",
    "stack",
    "concatenate",
    "mean",
}
PASSING |= {
    "abs",
    "item",
    "double",
    "numpy",
    "cpu",
    "detach",
    "to_record",
    "reversed",
    "copy",
}
PASSING |= {
    "enumerate",
    "reshape",
    "ravel",
    "flatten",
    "get",
    "round",
    "to_unit",
    "from_unit",
}
EXACT = {"equal", "array_equal", "assert_array_equal"}
CLOSE = {"approx", "isclose", "allclose", "assert_allclose", "assert_close"}
TOLERANCES = {"abs", "rel", "atol", "rtol"}
HINT = (
    "compare floats with pytest.approx(..., abs=1e-5) times the width of the scale (float64: "
    "abs=1e-9); compare files by their bytes"
)


def name_of(function: ast.expr) -> str:
    """Returns the last name of ``function``: approx for pytest.approx."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def names_in(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def loop_targets(target: ast.expr, values: ast.expr) -> set[str]:
    """Returns the names of a loop over ``values`` that take its floats: not its numbers or keys."""
    is_pairs = isinstance(values, ast.Call) and name_of(values.func) in {
        "enumerate",
        "items",
    }
    if is_pairs and isinstance(target, ast.Tuple):
        return names_in(target.elts[-1])
    return names_in(target)


class Floats:
    """Which expressions of a file hold floats of a model.

    ``helpers`` are the functions that return some; ``attributes`` and ``methods`` hold or return
    some; ``names`` are the variables of the function that is read.
    """

    def __init__(
        self, helpers: set[str], attributes: set[str], methods: set[str]
    ) -> None:
        self.helpers, self.attributes, self.methods = helpers, attributes, methods
        self.names: set[str] = set()

    def among(self, parts: Iterable[ast.expr | None]) -> bool:
        return any(self.holds(part) for part in parts if part is not None)

    def holds(self, node: ast.expr) -> bool:
        """Returns whether ``node`` is a float of a model or contains one."""
        match node:
            case ast.Name():
                return node.id in self.names
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(slice=ast.Constant(value=str() as key)) if key in LABELS:
                return False
            case ast.Subscript(slice=ast.Constant(value=str() as key)) if (
                key in self.attributes
            ):
                return True
            case ast.Call():
                return self._call(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.List() | ast.Tuple() | ast.Set():
                return self.among(node.elts)
            case ast.Dict():
                return self.among(node.values)
            case ast.BinOp():
                return self.among((node.left, node.right))
            case ast.IfExp():
                return self.among((node.body, node.orelse))
            case ast.UnaryOp():
                return not isinstance(node.op, ast.Not) and self.holds(node.operand)
            case ast.Subscript() | ast.Starred() | ast.NamedExpr():
                return self.holds(node.value)
        return False

    def _attribute(self, node: ast.Attribute) -> bool:
        is_account = node.attr in ACCOUNT and self.holds(node.value)
        return node.attr in self.attributes or is_account

    def _call(self, node: ast.Call) -> bool:
        name = name_of(node.func)
        if isinstance(node.func, ast.Name) and name in self.helpers:
            return True
        if not isinstance(node.func, ast.Attribute):
            return name in PASSING and self.among(node.args)
        if name in self.methods:
            return True
        return name in PASSING and self.among((node.func.value, *node.args))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> bool:
        outer = set(self.names)
        for loop in node.generators:
            targets = (
                loop_targets(loop.target, loop.iter) if self.holds(loop.iter) else set()
            )
            self.names = (self.names - names_in(loop.target)) | targets
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        is_float = self.holds(element)
        self.names = outer
        return is_float

    def enter(self, function: ast.AST) -> None:
        """Finds the variables of ``function`` that hold floats of a model."""
        self.names = set()
        before = -1
        while before < len(self.names):
            before = len(self.names)
            for node in ast.walk(function):
                self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(
                targets=[ast.Tuple() as target], value=ast.Tuple() as value
            ):
                for name, part in zip(target.elts, value.elts, strict=False):
                    self.names |= names_in(name) if self.holds(part) else set()
            case ast.Assign() if self.holds(node.value):
                for target in node.targets:
                    self.names |= names_in(target)
            case ast.AnnAssign(value=ast.expr() as value) if self.holds(value):
                self.names |= names_in(node.target)
            case ast.NamedExpr() if self.holds(node.value):
                self.names |= names_in(node.target)
            case ast.For() if self.holds(node.iter):
                self.names |= loop_targets(node.target, node.iter)

    def returned_by(self, function: ast.FunctionDef) -> bool:
        """Returns whether ``function`` returns or yields floats of a model."""
        self.enter(function)
        results = [
            n.value for n in ast.walk(function) if isinstance(n, ast.Return | ast.Yield)
        ]
        return self.among(results)


def is_close(node: ast.AST, *, by_default: bool) -> bool:
    """Returns whether ``node`` calls approx or the like with a tolerance that is not 0, or with
    none if that is enough ``by_default``."""
    if not (isinstance(node, ast.Call) and name_of(node.func) in CLOSE):
        return False
    named = [word.value for word in node.keywords if word.arg in TOLERANCES]
    if not named:
        return by_default
    return any(
        not (isinstance(value, ast.Constant) and value.value == 0) for value in named
    )


def has_no_float(node: ast.expr) -> bool:
    """Returns whether ``node`` is written as None, a text or a container of them."""
    match node:
        case ast.Constant():
            return node.value is None or isinstance(node.value, str | bool)
        case ast.List() | ast.Tuple() | ast.Set():
            return all(map(has_no_float, node.elts))
        case ast.Dict():
            return all(map(has_no_float, node.values))
        case ast.BinOp(op=ast.Mult()):
            return has_no_float(node.left)
    return False


def rounded_constants(node: ast.expr) -> list[float]:
    """Returns the floats written in ``node`` that binary cannot hold exactly, such as 0.1."""
    match node:
        case ast.Constant(value=float() as number):
            return [number] if number * 1024 % 1 else []
        case ast.List() | ast.Tuple() | ast.Set():
            return [number for part in node.elts for number in rounded_constants(part)]
        case ast.Dict():
            return [
                number for part in node.values for number in rounded_constants(part)
            ]
    return []


def is_one_value(side: ast.expr, floats: Floats) -> bool:
    """Returns whether ``side`` is the number of distinct floats."""
    match side:
        case ast.Call(func=ast.Name(id="len"), args=[ast.SetComp() as values]):
            return floats.holds(values)
        case ast.Call(
            func=ast.Name(id="len"), args=[ast.Call(func=ast.Name(id="set")) as values]
        ):
            return floats.holds(values)
    return False


def is_exact(node: ast.AST, floats: Floats, *, by_default: bool) -> bool:
    """Returns whether ``node`` asks for equal floats; ``by_default``: see is_close."""
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        is_zero = name in CLOSE - {"approx"} and not is_close(node, by_default=True)
        return (name in EXACT or is_zero) and floats.among(node.args)
    if not is_equality(node):
        return False
    sides = [node.left, *node.comparators]
    if any(
        is_close(part, by_default=by_default)
        for side in sides
        for part in ast.walk(side)
    ):
        return False
    has_one = any(isinstance(side, ast.Constant) and side.value == 1 for side in sides)
    if has_one and any(is_one_value(side, floats) for side in sides):
        return True
    return floats.among(sides) and not any(map(has_no_float, sides))


def is_equality(node: ast.AST) -> TypeGuard[ast.Compare]:
    if not isinstance(node, ast.Compare):
        return False
    return all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)


def has_rounded_constant(node: ast.AST) -> bool:
    """Returns whether ``node`` compares with a written number that binary does not hold exactly."""
    if not is_equality(node):
        return False
    sides = [node.left, *node.comparators]
    if any(
        is_close(part, by_default=True) for side in sides for part in ast.walk(side)
    ):
        return False
    return any(map(rounded_constants, sides))


def helpers_of(trees: dict[Path, ast.Module]) -> dict[Path, set[str]]:
    """Returns for each file the functions, its own or imported from other tests, that return
    floats of a model."""
    helpers: dict[Path, set[str]] = {path: set() for path in trees}
    imported = {path: imported_names(tree) for path, tree in trees.items()}
    before = -1
    while before < (count := sum(map(len, helpers.values()))):
        before = count
        shared = set().union(*helpers.values())
        for path, tree in trees.items():
            floats = Floats(helpers[path] | (shared & imported[path]), SOURCES, METHODS)
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and floats.returned_by(node):
                    helpers[path].add(node.name)
    shared = set().union(*helpers.values())
    return {path: own | (shared & imported[path]) for path, own in helpers.items()}


def imported_names(tree: ast.Module) -> set[str]:
    """Returns the names that a test imports from other tests."""
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def exact_comparisons(sources: dict[Path, str]) -> Iterator[str]:
    """Yields where ``sources`` (path below tests/: text) ask for equal floats."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    helpers = helpers_of(trees)
    for path, tree in trees.items():
        folder = path.parts[0]
        model = Floats(helpers[path], SOURCES, METHODS)
        estimate = Floats(set(), ESTIMATE if folder in STATISTICS else set(), set())
        for function in tree.body:
            model.enter(function)
            estimate.enter(function)
            for node in ast.walk(function):
                if (
                    is_exact(node, model, by_default=False)
                    or is_exact(node, estimate, by_default=True)
                    or (folder in NUMERIC and has_rounded_constant(node))
                ):
                    yield f"{path}:{node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def test_no_test_holds_floats_of_a_model_to_be_equal() -> None:
    paths = sorted(TESTS.rglob("*.py"))
    found = list(
        exact_comparisons({p.relative_to(TESTS): p.read_text("utf-8") for p in paths})
    )
    assert not found, "\n".join([HINT, *found])


HELPER = (
    "def numbers(judge):\n    return [j.scores['overall'] for j in judge.score([])]\n"
)
FORBIDDEN = {
    "a score and a number": "assert one.scores['overall'] == 3",
    "two dicts of scores": "assert dict(one.scores) == other.scores",
    "two lists of judgements": "assert list(judge.score(a)) == list(judge.score(b))",
    "a loop's variable": "for j in judge.score(a):\n        assert j.scores['x'] == wanted",
    "a list": "assert [j.scores for j in judge.score(a)] == before",
    "a name": "before = [dict(j.scores) for j in found]\n    assert before == after",
    "a helper": "assert numbers(judge) == wanted",
    "a helper's name": "first = numbers(judge)\n    assert first[0] == second",
    "an inequality": "assert numbers(judge) != other",
    "a set": "assert {j.scores['x'] for j in found} == {70, None}",
    "one value": "assert len(set(numbers(judge))) == 1",
    "tensors": "assert torch.equal(net.last_vectors(ids), wanted)",
    "arrays": "assert np.array_equal(judge.units('x', vectors), wanted)",
    "no tolerance": "assert numbers(judge) == pytest.approx(wanted)",
    "a tolerance of 0": "torch.testing.assert_close(out.last_hidden_state, w, rtol=0, atol=0)",
    "contributions": "account = j.contributions['x']\n    assert account.value == raw",
    "a fraction": "assert margin == 0.1",
    "a saved record": "assert json.loads(line)['scores'] == {'overall': 3.5}",
}
ALLOWED = {
    "approx": "assert numbers(judge) == pytest.approx(wanted, abs=1e-5)",
    "unscored": "assert one.scores == {'overall': None}",
    "a reason": "assert one.scores['overall'] is None and one.failure == 'no answer'",
    "names": "assert one.scores.keys() == {'overall'}",
    "a count": "assert len(set(numbers(judge))) == 6",
    "files": "assert first.read_bytes() == second.read_bytes()",
    "an exact fraction": "assert share == 0.25",
    "the number of judgements": "assert len(list(judge.score(a))) == 1",
    "indices": "assert [i for i, x in enumerate(numbers(judge)) if x] == [1, 2]",
    "another variable": "texts = [j for j in names]\n    assert texts == other",
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_what_is_forbidden(case: str) -> None:
    text = f"{HELPER}\ndef test():\n    {FORBIDDEN[case]}\n"
    assert len(list(exact_comparisons({Path("models/test_x.py"): text}))) == 1


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_allowed(case: str) -> None:
    text = f"{HELPER}\ndef test():\n    {ALLOWED[case]}\n"
    assert not list(exact_comparisons({Path("models/test_x.py"): text}))


def test_a_helper_of_another_file_and_an_estimate() -> None:
    files = {
        Path("models/case.py"): HELPER,
        Path(
            "models/test_x.py"
        ): "from .case import numbers\nassert numbers(judge) == wanted\n",
        Path("stats/test_y.py"): "assert mean.value == 3\n",
        Path("reading/test_z.py"): "assert row.value == 3\n",
    }
    found = [line.partition(":")[0] for line in exact_comparisons(files)]
    assert found == ["models/test_x.py", "stats/test_y.py"]
