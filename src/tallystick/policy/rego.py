"""Rego in process: the only module that imports the engine.

An engine belongs to the thread that made it: to use it or only to drop it elsewhere is a Rust
panic, which is no `Exception`. So the thread alone holds it, and whoever asks has a name for it.
Panics, engine errors and undefined rules all leave here as values or as `RegoError`; what does
not parse, or recurses, is refused when it is loaded, because the engine would overflow its
stack at the first question.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Any

import msgspec
import orjson
import regorus  # type: ignore[import-untyped]  # it ships no stubs

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.policy.bundle import Bundle, Module


class RegoError(TallystickError):
    """The engine could not say; the first lines of what it said instead."""

    code = "POLICY_FAILED"


class Branch(msgspec.Struct, frozen=True):
    """Conditions under which a definition holds: its body, or one of its `else`."""

    line: int
    text: str
    last_line: int = 0
    conditions: tuple[int, ...] = ()
    """The lines on which each of them begins."""


class Rule(msgspec.Struct, frozen=True):
    """One definition; a rule may have several."""

    package: str
    name: str
    file: str
    line: int
    branches: tuple[Branch, ...] = ()
    imports: tuple[str, ...] = ()
    """What its file imports: without these its conditions may mean something else."""
    is_default: bool = False
    is_function: bool = False

    @property
    def path(self) -> str:
        return f"data.{self.package}.{self.name}"


class Engine:
    """May be let go of by any thread, a collector of garbage included; asked only by the one that made it."""

    def __init__(self, modules: Sequence[Module], data: Sequence[Module] = ()) -> None:
        """Raises InvalidArgument for what does not parse or recurses."""
        self._name, self._left = _own.load_into(regorus.Engine())
        self.rules, self.consulted = self._load(modules, data)

    def __del__(self) -> None:
        self._left.append(self._name)

    def evaluate(self, path: str, question: dict[str, Any]) -> Any:
        """The value of the rule at `path`, None where it is undefined. Raises RegoError."""
        try:
            self._engine.set_input_json(orjson.dumps(question).decode())
            value = self._engine.eval_rule(path)
            self._engine.take_prints()
            return value
        except BaseException as error:
            raise _rego_error(error) from None

    def package(self, package: str, question: dict[str, Any]) -> dict[str, Any]:
        """Every rule of the package that has a value for this question."""
        try:
            self._engine.set_input_json(orjson.dumps(question).decode())
            answer = json.loads(self._engine.eval_query_as_json(f"data.{package}"))
        except BaseException as error:
            raise _rego_error(error) from None
        expressions = [expression for row in answer.get("result", []) for expression in row["expressions"]]
        return expressions[0]["value"] if expressions else {}

    @property
    def _engine(self) -> Any:
        # Never put into a variable: the frames of a traceback would hold it, and any thread may drop these.
        try:
            return _own.engines[self._name]
        except KeyError:
            raise RegoError("an engine is asked only by the thread that made it") from None

    def _load(
        self, modules: Sequence[Module], data: Sequence[Module]
    ) -> tuple[tuple[Rule, ...], frozenset[str] | None]:
        # A policy's print() would go to standard error, and may hold what should not.
        self._engine.set_gather_prints(True)
        for module in modules:
            _guarded(partial(self._engine.add_policy, module.name, module.text), module.name)
        for document in data:
            _guarded(partial(self._engine.add_data_json, document.text), document.name)
        syntax = json.loads(_guarded(self._engine.get_ast_as_json, "the policy"))
        _check_recursion(syntax)
        return tuple(_rules(syntax)), _consulted(syntax)


class _Own(threading.local):
    """What this thread made, until it sees that nobody asks for it any more, or ends."""

    def __init__(self) -> None:
        self.engines: dict[int, Any] = {}
        self._left: deque[int] = deque()

    def load_into(self, engine: Any) -> tuple[int, deque[int]]:
        """Its name, and where to put that when it is not needed any more."""
        while self._left:
            self.engines.pop(self._left.popleft(), None)
        name = next(_names)
        self.engines[name] = engine
        return name, self._left


_own = _Own()
_names = count()


def entry_of(rules: Iterable[Rule]) -> str:
    """The package that decides: the one with a rule called `decision`."""
    packages = sorted({rule.package for rule in rules if rule.name == "decision"})
    if len(packages) == 1:
        return packages[0]
    problem = "no rule is called 'decision'" if not packages else f"{' and '.join(packages)} both have a 'decision'"
    raise InvalidArgument(
        f"the policy cannot be asked: {problem}",
        code="POLICY_INVALID",
        hint='one package has a rule \'decision\' that is {"result": bool, "reason": text, "policy_version": text}',
    )


def engine_for(bundle: Bundle, *, tests: bool = False) -> Engine:
    return Engine((*bundle.modules, *(bundle.tests if tests else ())), bundle.data)


def _guarded(load: Callable[[], Any], name: str) -> Any:
    try:
        return load()
    except BaseException as error:
        del load
        message = str(_rego_error(error))
        place = "" if message.startswith(name) else f"{name}: "
        raise InvalidArgument(f"{place}{message}", code="POLICY_INVALID") from None


def _rego_error(error: BaseException) -> RegoError:
    """Interrupts pass; a panic of the engine is an answer like any other failure."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)):
        raise error
    text = " ".join(str(error).split("Stack backtrace:")[0].split())
    # The engine draws a picture: place, line, arrow, sentence.
    drawn = re.match(r"--> (\S+) .*?error: (.*)", text)
    said = f"{drawn[1]}: {drawn[2]}" if drawn else text
    return RegoError(said[:400] or type(error).__name__)


# -- what the syntax tree says


def _rules(syntax: list[Any]) -> Iterator[Rule]:
    for module in syntax:
        tree, source = module["ast"], module["source"]["contents"].encode()
        package = ".".join(_steps(tree["package"]["refr"]))
        imports = tuple(_slice(source, each["span"]) for each in tree["imports"])
        for rule in tree["rules"]:
            kind, body = next(iter(rule.items()))
            head = body if kind == "Default" else next(iter(body["head"].values()))
            yield Rule(
                package=package,
                name=_steps(head["refr"])[0],
                file=module["source"]["file"],
                line=body["span"]["line"],
                branches=tuple(_branch(source, branch) for branch in body.get("bodies", [])),
                imports=imports,
                is_default=kind == "Default",
                is_function="Func" in body.get("head", {}),
            )


def _branch(source: bytes, body: dict[str, Any]) -> Branch:
    line, query = body["span"]["line"], body["query"]
    if not query["stmts"]:
        # A last `else` has no conditions, and a span of no meaning.
        return Branch(line, "true", line)
    text = _query(source, query["span"])
    lines = dict.fromkeys(each["span"]["line"] for each in query["stmts"])
    return Branch(line, text, query["span"]["line"] + text.count("\n"), tuple(lines))


def _query(source: bytes, span: dict[str, int]) -> str:
    """Without braces, a string at its beginning or end is in the tree without the quote there."""
    start, end = span["start"], span["end"]
    return source[start - (source[start - 1 : start] in _QUOTES) : end + (source[end : end + 1] in _QUOTES)].decode()


_QUOTES = (b'"', b"`")


def _slice(source: bytes, span: dict[str, int]) -> str:
    return source[span["start"] : span["end"]].decode()


def _steps(reference: dict[str, Any]) -> list[str]:
    """The segments of `a.b["c"]`, up to the first that is not fixed."""
    return [step for step in takewhile(bool, _all_steps(reference)) if step]


def _all_steps(reference: dict[str, Any]) -> list[str | None]:
    kind, node = next(iter(reference.items()))
    if kind == "Var":
        return [node["value"]]
    if kind == "RefDot":
        return [*_all_steps(node["refr"]), node["field"][1]]
    if kind == "RefBrack":
        fixed = node["index"].get("String")
        return [*_all_steps(node["refr"]), fixed["value"] if fixed else None]
    return [None]


def _consulted(syntax: list[Any]) -> frozenset[str] | None:
    """The members of the question that can make a difference, one level deep in `context`; None where all of them
    may, or something else than the question. Too careful now and then, never too bold."""
    found = set()
    for steps in _references(syntax):
        if steps[0] in _CHANGEABLE:
            return None
        if steps[0] != "input":
            continue
        member = steps[1] if len(steps) > 1 else None
        if member == "context":
            member = f"context.{steps[2]}" if len(steps) > 2 and steps[2] else None
        if member is None:
            return None
        found.add(member)
    return frozenset(found)


_CHANGEABLE = frozenset({"time", "rand", "uuid", "http", "net", "opa", "io", "crypto"})
"""Families of functions that may answer the same question in another way later."""


def _references(node: Any) -> Iterator[list[str | None]]:
    """The steps of every reference; None for one that is not fixed."""
    if isinstance(node, list):
        for child in node:
            yield from _references(child)
    elif isinstance(node, dict):
        if node.keys() & _REFERENCES:
            yield _all_steps(node)
            yield from _references(list(_indexes(node)))
        else:
            yield from _references(list(node.values()))


def _check_recursion(syntax: list[Any]) -> None:
    """OPA refuses it too. Too careful where a variable has the name of a rule, never too bold."""
    uses: dict[str, set[str]] = {}
    for module in syntax:
        package = ".".join(_steps(module["ast"]["package"]["refr"]))
        imports = {_alias(each): ".".join(_steps(each["refr"])) for each in module["ast"]["imports"]}
        for rule in module["ast"]["rules"]:
            body = next(iter(rule.values()))
            head = body if "refr" in body else next(iter(body["head"].values()))
            name = f"data.{package}.{_steps(head['refr'])[0]}"
            mentioned = _mentioned({**body, "refr": None, "head": {**head, "refr": None}}, package, imports)
            uses.setdefault(name, set()).update(mentioned)
    for name in uses:
        trail = _cycle(name, uses)
        if trail:
            raise InvalidArgument(f"the policy recurses: {' → '.join(trail)}", code="POLICY_INVALID")


def _alias(each: dict[str, Any]) -> str:
    alias = each.get("as")
    return str(alias["text"]) if isinstance(alias, dict) and "text" in alias else _steps(each["refr"])[-1]


def _mentioned(node: Any, package: str, imports: dict[str, str]) -> Iterator[str]:
    """Paths of rules, or beginnings of such, that this part of the tree may lead to."""
    if isinstance(node, list):
        for child in node:
            yield from _mentioned(child, package, imports)
        return
    if not isinstance(node, dict):
        return
    if _REFERENCES & node.keys():
        steps = _steps(node)
        steps = [*imports[steps[0]].split("."), *steps[1:]] if steps and steps[0] in imports else steps
        if steps:
            yield ".".join(steps) if steps[0] == "data" else f"data.{package}.{steps[0]}"
        yield from _mentioned(list(_indexes(node)), package, imports)
        return
    for child in node.values():
        yield from _mentioned(child, package, imports)


_REFERENCES = {"Var", "RefDot", "RefBrack"}


def _indexes(reference: dict[str, Any]) -> Iterator[Any]:
    """What stands in the brackets of a reference, and what it begins with if that is no name."""
    kind, node = next(iter(reference.items()))
    if kind == "RefBrack":
        yield node["index"]
    if kind in ("RefDot", "RefBrack"):
        yield from _indexes(node["refr"])
    elif kind != "Var":
        yield reference


def _cycle(start: str, uses: dict[str, set[str]]) -> list[str]:
    """A way from `start` back to it; a mention of a package counts for all of its rules."""
    waiting, seen = [[start]], {start}
    while waiting:
        trail = waiting.pop()
        for mention in uses[trail[-1]]:
            for name in uses:
                reached = name == mention or mention.startswith(f"{name}.") or name.startswith(f"{mention}.")
                if not reached:
                    continue
                if name == start:
                    return [*trail, start]
                if name not in seen:
                    seen.add(name)
                    waiting.append([*trail, name])
    return []
