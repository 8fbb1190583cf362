"""Random Python functions, as source text.

Expressions and simple statements come from the templates of `random_templates`; functions, loops,
handlers and the whole program are put together here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from .random_prelude import prelude_for
from .random_templates import CHOICES, CONSTANTS, EXPRESSIONS, INPUTS, LOOPS, SIMPLE, TYPES

_HOLE = re.compile(r"\{(v:\w+|\w+)\}")

Lines = list[str]


@dataclass(slots=True)
class Signature:
    """How a function may be called."""

    name: str
    positional: list[str]
    defaults: int = 0
    star: bool = False
    keyword: list[str] = field(default_factory=list)
    double_star: bool = False


@dataclass(slots=True)
class Scope:
    """Variables of one function by kind, what it can call, and where statements stand."""

    variables: dict[str, list[str]] = field(default_factory=dict)
    outer: dict[str, list[str]] = field(default_factory=dict)
    functions: list[Signature] = field(default_factory=list)
    generators: list[Signature] = field(default_factory=list)
    managers: list[Signature] = field(default_factory=list)
    loops: int = 0
    handlers: int = 0
    generator: bool = False
    comprehension: bool = False

    def nested(self) -> Scope:
        """The scope of a function inside, which can call what this one can."""
        return Scope(
            functions=list(self.functions),
            generators=list(self.generators),
            managers=list(self.managers),
        )

    def names(self, kind: str) -> list[str]:
        return self.variables.get(kind, []) + self.outer.get(kind, [])


class Writer:
    """Writes one program; every choice comes from one source of randomness."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.counter = 0
        self.budget = random.choice((6, 12, 25, 40))

    # -- expressions -------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def expression(self, kind: str, scope: Scope, depth: int = 0) -> str:
        """An expression of about this kind."""
        if self.chance(0.015):
            kind = "any"
        if kind in CHOICES:
            kind = self.random.choice(CHOICES[kind])
        if depth < 3 and not (depth and self.chance(0.25)):
            template = self.random.choice(EXPRESSIONS[kind])
        else:
            names = scope.names(kind)
            template = self.random.choice(names) if names else EXPRESSIONS[kind][0]
        return self.fill(template, scope, depth + 1)

    def fill(self, template: str, scope: Scope, depth: int = 0) -> str:
        """Put something in every hole of a template."""
        marked = template.replace("{{", "\1").replace("}}", "\2")
        inner = Scope(**{name: getattr(scope, name) for name in Scope.__slots__})
        inner.comprehension |= " for " in marked or "lambda" in marked
        filled = _HOLE.sub(lambda match: self.hole(match[1], inner, depth), marked)
        return filled.replace("\1", "{").replace("\2", "}")

    def hole(self, name: str, scope: Scope, depth: int) -> str:
        if name.startswith("v:"):
            names = scope.names(name[2:])
            if names:
                return self.random.choice(names)
            return "(" + self.expression(name[2:], scope, 3) + ")"
        if name.startswith("new_"):
            return self.new_variable(name[4:], scope)
        writer = SPECIAL.get(name)
        return writer(self, scope, depth) if writer else self.expression(name, scope, depth)

    def new_variable(self, kind: str, scope: Scope) -> str:
        """A variable to be bound: often one that exists."""
        known = scope.variables.get(kind, [])
        if scope.comprehension:
            return self.random.choice(known) if known and not scope.loops else self.fresh("w")
        name = self.random.choice(known) if known and self.chance(0.5) else self.fresh(kind[0])
        if name not in known:
            scope.variables[kind] = [*known, name]
        return name

    def call(self, signature: Signature, scope: Scope, depth: int) -> str:
        """A call in one of the many forms that bind the same parameters."""
        if self.chance(0.03):
            return f"{signature.name}({self.expression('int', scope, depth)})"
        values = [
            self.expression("any" if self.chance(0.2) else "int", scope, depth + 1)
            for _ in signature.positional
        ]
        optional = self.random.randint(0, signature.defaults)
        values = values[: len(values) - optional]
        by_name = self.random.randint(0, len(values)) if self.chance(0.4) else len(values)
        args = values[:by_name]
        if args and self.chance(0.2):
            cut = self.random.randint(0, len(args))
            args = [*args[:cut], f"*[{', '.join(args[cut:])}]"]
        full = by_name == len(signature.positional)
        if signature.star and full and self.chance(0.5):
            args.append("*" + self.expression("seq", scope, depth + 1))
        named = [
            f"{n}={v}"
            for n, v in zip(signature.positional[by_name:], values[by_name:], strict=False)
        ]
        named += [
            f"{n}={self.expression('int', scope, depth + 1)}"
            for n in signature.keyword
            if self.chance(0.7)
        ]
        self.random.shuffle(named)
        if named and self.chance(0.15):
            name, _, value = named.pop().partition("=")
            named.append(f"**{{'{name}': {value}}}")
        if signature.double_star and self.chance(0.5):
            named.append(f"extra={self.expression('any', scope, depth + 1)}")
        return f"{signature.name}({', '.join([*args, *named])})"

    # -- statements --------------------------------------------------------------------

    def block(self, scope: Scope, size: int, depth: int = 0) -> Lines:
        """Some statements."""
        lines: Lines = []
        for _ in range(size):
            if self.budget <= 0:
                break
            self.budget -= 1
            lines += self.statement(scope, depth)
        return lines or [self.fill("log('mark')", scope)]

    def statement(self, scope: Scope, depth: int) -> Lines:
        if depth < 3 and self.chance(0.42):
            return self.random.choice(COMPOUND)(self, scope, depth)
        if scope.loops and self.chance(0.12):
            return [self.random.choice(("break", "continue"))]
        if self.chance(0.06):
            return [self.leave(scope)]
        if self.chance(0.05):
            return [self.fail(scope)]
        return [self.fill(self.random.choice(SIMPLE), scope)]

    def leave(self, scope: Scope) -> str:
        if scope.generator:
            return "yield " + self.expression("int", scope)
        return "return " + self.expression("any", scope)

    def fail(self, scope: Scope) -> str:
        error = self.expression("exception", scope)
        forms = [f"raise {error}", f"raise {error}", f"fail(Boom, {self.expression('int', scope)})"]
        if scope.handlers:
            forms += ["raise", f"raise {error} from None", f"raise {error} from KeyError(0)"]
        return self.random.choice(forms)

    def body(self, scope: Scope, depth: int) -> Lines:
        return indent(self.block(scope, self.random.randint(1, 3), depth + 1))

    def condition(self, scope: Scope, depth: int) -> Lines:
        lines = [f"if {self.expression('bool' if self.chance(0.7) else 'any', scope)}:"]
        lines += self.body(scope, depth)
        if self.chance(0.3):
            lines += [f"elif {self.expression('bool', scope)}:", *self.body(scope, depth)]
        if self.chance(0.5):
            lines += ["else:", *self.body(scope, depth)]
        return lines

    def loop(self, scope: Scope, depth: int) -> Lines:
        template = self.random.choice(LOOPS)
        header = "for " + self.fill(template, scope) + ":"
        scope.loops += 1
        lines = [header, "    tick()", *self.body(scope, depth)]
        scope.loops -= 1
        if self.chance(0.3):
            lines += ["else:", *self.body(scope, depth)]
        return lines

    def while_loop(self, scope: Scope, depth: int) -> Lines:
        name = self.fresh("n")
        start = [f"{name} = {self.random.choice((self.expression('int', scope, 2), '0', '3'))}"]
        test = self.random.choice(
            (f"{name} < 4", f"{name} < 3 and {self.expression('bool', scope)}", "True")
        )
        scope.loops += 1
        body = ["    tick()", f"    {name} += 1", *self.body(scope, depth)]
        scope.loops -= 1
        if test == "True":
            body += [f"    if {name} > 2:", "        break"]
        lines = [*start, f"while {test}:", *body]
        return lines + (["else:", *self.body(scope, depth)] if self.chance(0.2) else [])

    def attempt(self, scope: Scope, depth: int) -> Lines:
        lines = ["try:", *self.body(scope, depth)]
        kinds = [
            "Boom",
            "Fault",
            "Exception",
            "(KeyError, IndexError)",
            "TypeError",
            "ZeroDivisionError",
        ]
        clauses = self.random.choice((0, 1, 1, 1, 2))
        scope.handlers += 1
        for _ in range(clauses):
            name = self.fresh("e")
            named = self.chance(0.5)
            lines.append(f"except {self.random.choice(kinds)}{f' as {name}' if named else ''}:")
            if named and self.chance(0.5):
                lines.append(f"    log({name}.args, {name}.__context__, {name}.__cause__)")
            lines += self.body(scope, depth)
        scope.handlers -= 1
        if clauses and self.chance(0.3):
            lines += ["else:", *self.body(scope, depth)]
        if not clauses or self.chance(0.3):
            loops, scope.loops = (
                scope.loops,
                0,
            )  # CPython forbids nothing here, but warns from 3.14 on
            lines += ["finally:", *self.body(scope, depth)]
            scope.loops = loops
        return lines

    def managed(self, scope: Scope, depth: int) -> Lines:
        items = []
        for _ in range(self.random.choice((1, 1, 2))):
            text = self.expression("manager", scope)
            items.append(
                text + (f" as {self.new_variable('any', scope)}" if self.chance(0.4) else "")
            )
        return [f"with {', '.join(items)}:", *self.body(scope, depth)]

    def manager(self, name: str, scope: Scope) -> Lines:
        """A context manager written as a generator, most often with one yield."""
        signature = self.signature(name)
        inner = scope.nested()
        inner.variables = {"int": [*signature.positional, *signature.keyword]}
        if signature.star:
            inner.variables["tuple"] = ["rest"]
        if signature.double_star:
            inner.variables["dict"] = ["more"]
        lines = ["@contextlib.contextmanager", f"def {name}({self.parameters(signature, scope)}):"]
        lines += indent(self.block(inner, self.random.randint(0, 1), 2))
        lines += indent(self.random.choice(WAITS)(self, inner))
        if self.chance(0.4):
            lines += indent(self.block(inner, 1, 2))
        scope.managers.append(signature)
        return lines

    def wait(self, scope: Scope) -> Lines:
        """The yield, perhaps of an object that dies."""
        return ["yield " + self.expression(self.random.choice(("int", "obj", "any")), scope)]

    def wait_in_try(self, scope: Scope) -> Lines:
        lines = ["try:", *indent(self.wait(scope))]
        scope.handlers += 1
        if self.chance(0.6):
            kind = self.random.choice(("Boom", "Exception", "BaseException", "StopIteration"))
            named = self.chance(0.5)
            lines.append(f"except {kind}{' as error' if named else ''}:")
            if named:
                lines.append("    log(error.args, error.__context__, error.__cause__)")
            lines += self.body(scope, 2)
            if self.chance(0.5):
                lines.append("    raise")
        scope.handlers -= 1
        if "except" not in " ".join(lines) or self.chance(0.3):
            lines += ["finally:", *self.body(scope, 2)]
        return lines

    def wait_in_with(self, scope: Scope) -> Lines:
        header = f"with {self.expression('manager', scope)} as inside:"
        return [header, *indent([self.random.choice(("yield inside", *self.wait(scope)))])]

    def closure(self, scope: Scope, depth: int) -> Lines:
        """A nested function that reads, and perhaps rebinds, variables of this one."""
        return self.function(self.fresh("g"), scope, depth, closure=True)

    def function(self, name: str, scope: Scope, depth: int, *, closure: bool = False) -> Lines:
        """A function definition; `scope` can call it afterwards."""
        signature = self.signature(name)
        inner = scope.nested()
        inner.generator = self.chance(0.2)
        inner.variables = {"int": [*signature.positional, *signature.keyword]}
        parameters = self.parameters(signature, scope)
        lines = [f"def {name}({parameters}):"]
        if signature.star:
            inner.variables["tuple"] = ["rest"]
        if signature.double_star:
            inner.variables["dict"] = ["more"]
        if closure:
            inner.outer = {kind: list(names) for kind, names in scope.variables.items()}
            rebound = [n for names in inner.outer.values() for n in names if self.chance(0.2)]
            if rebound:
                lines.append(f"    nonlocal {', '.join(sorted(set(rebound)))}")
                inner.variables = {
                    kind: inner.variables.get(kind, []) + [n for n in names if n in rebound]
                    for kind, names in {**inner.variables, **inner.outer}.items()
                    if kind in inner.variables or any(n in rebound for n in names)
                }
                inner.outer = {
                    kind: [n for n in names if n not in rebound]
                    for kind, names in inner.outer.items()
                }
        if inner.generator:
            lines += indent(["yield " + self.expression("int", inner)])
        lines += indent(self.block(inner, self.random.randint(1, 4), max(depth, 1)))
        if not inner.generator:
            lines.append("    return " + self.expression("int", inner))
        (scope.generators if inner.generator else scope.functions).append(signature)
        return lines

    def signature(self, name: str) -> Signature:
        positional = [self.fresh("p") for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        return Signature(
            name,
            positional,
            self.random.randint(0, len(positional)),
            self.chance(0.25),
            [self.fresh("k") for _ in range(self.random.choice((0, 0, 0, 1, 2)))],
            self.chance(0.2),
        )

    def parameters(self, signature: Signature, scope: Scope) -> str:
        parts = list(signature.positional)
        for index in range(len(parts) - signature.defaults, len(parts)):
            parts[index] += f"={self.expression('int', scope, 2)}"
        if signature.star:
            parts.append("*rest")
        elif signature.keyword:
            parts.append("*")
        parts += [f"{name}={self.expression('int', scope, 2)}" for name in signature.keyword]
        return ", ".join([*parts, "**more"] if signature.double_star else parts)

    # -- programs ----------------------------------------------------------------------

    def program(self) -> str:
        """The text of a module; see `generate`."""
        module = Scope()
        text: Lines = []
        for _ in range(self.random.choice((0, 1, 1, 2))):
            text += self.function(self.fresh("h"), module, 1)
        if self.chance(0.3):
            text += self.manager(self.fresh("m"), module)
        factory = Scope(
            functions=module.functions, generators=module.generators, managers=module.managers
        )
        cells = [self.random.choice(CONSTANTS) for _ in range(self.random.choice((0, 1, 2, 3)))]
        factory_names = [self.fresh("c") for _ in cells]
        for (kind, _), name in zip(cells, factory_names, strict=True):
            factory.variables.setdefault(kind, []).append(name)
        body: Lines = []
        if self.chance(0.4):
            body += self.closure(factory, 2)
        if self.chance(0.1):
            body += self.manager(self.fresh("m"), factory)
        kinds = [
            self.random.choice(list(INPUTS)) for _ in range(self.random.choice((0, 1, 2, 2, 3)))
        ]
        names = [self.fresh("a") for _ in kinds]
        star, double_star = self.chance(0.2), self.chance(0.15)
        body += self.main(factory, dict(zip(names, kinds, strict=True)), star, double_star)
        text += [f"def make({', '.join(factory_names)}):", *indent(body), "    return f"]
        fixed = {name: self.random.choice(CONSTANTS) for name in names if self.chance(0.3)}
        text.append(f"f = make({', '.join(value for _, value in cells)})")
        table = ", ".join(f"{name!r}: {value}" for name, (_, value) in fixed.items())
        text.append(f"constants = {{{table}}}")
        types = {n: k for n, k in zip(names, kinds, strict=True) if k in TYPES and n not in fixed}
        chosen = {n: k for n, k in types.items() if self.chance(0.2)}
        text.append(f"types = {{{', '.join(f'{n!r}: {TYPES[k]}' for n, k in chosen.items())}}}")
        text.append("calls = [")
        for _ in range(3):
            given = [
                self.typed_input(kind) if name in chosen else self.random.choice(INPUTS[kind])
                for name, kind in zip(names, kinds, strict=True)
                if name not in fixed
            ]
            rest = self.random.choice(("", "1, 2", "Obj('r')")) if star else ""
            more = self.random.choice(("", "'z': 1", "'z': Obj('z')")) if double_star else ""
            rest += "," if rest else ""
            text.append(f"    lambda: ([{', '.join(given)}], ({rest}), {{{more}}}),")
        text.append("]")
        source = "\n".join(text) + "\n"
        return prelude_for(source) + source

    def typed_input(self, kind: str) -> str:
        """An input whose exact type is what `TYPES` says."""
        fitting = [t for t in INPUTS[kind] if t != "None" and not (kind == "list" and t[0] == "(")]
        return self.random.choice(fitting)

    def main(self, factory: Scope, parameters: dict[str, str], star: bool, double: bool) -> Lines:
        """The function that is specialised."""
        scope = factory.nested()
        scope.outer = factory.variables
        scope.generator = self.chance(0.07)
        for name, kind in parameters.items():
            scope.variables.setdefault(kind, []).append(name)
        head = [*parameters, *(["*rest"] if star else []), *(["**more"] if double else [])]
        if star:
            scope.variables.setdefault("tuple", []).append("rest")
        if double:
            scope.variables.setdefault("dict", []).append("more")
        lines = self.block(scope, self.random.randint(2, 7))
        last = ["yield 1"] if scope.generator else ["return " + self.expression("any", scope)]
        return [f"def f({', '.join(head)}):", *indent(lines), *indent(last)]


def indent(lines: Lines) -> Lines:
    return ["    " + line for line in lines]


Special = Callable[[Writer, Scope, int], str]

#: Holes that are not kinds.
SPECIAL: dict[str, Special] = {
    "number": lambda w, s, d: str(w.random.choice((0, 1, 2, 3, 3, 4))),
    "truth": lambda w, s, d: w.random.choice(("True", "False")),
    "text": lambda w, s, d: w.random.choice(("'a'", "'b'", "''", "'mode'")),
    "key": lambda w, s, d: w.random.choice(("'a'", "'b'", "'c'", "1")),
    "name": lambda w, s, d: f"'{w.fresh('o')}'",
    "cls": lambda w, s, d: w.random.choice(
        ("int", "list", "tuple", "Plain", "str", "dict", "Boom", "Obj")
    ),
    "call": lambda w, s, d: (
        w.call(w.random.choice(s.functions), s, d) if s.functions else w.expression("int", s, d)
    ),
    "gencall": lambda w, s, d: (
        w.call(w.random.choice(s.generators), s, d)
        if s.generators
        else w.fill("upto({number})", s, d)
    ),
    "cmcall": lambda w, s, d: (
        w.call(w.random.choice(s.managers), s, d) if s.managers else w.fill("scope({name})", s, d)
    ),
}

#: Where the generator of a context manager waits.
WAITS: list[Callable[[Writer, Scope], Lines]] = [
    Writer.wait, Writer.wait_in_try, Writer.wait_in_try, Writer.wait_in_try, Writer.wait_in_with,
]  # fmt: skip

COMPOUND: list[Callable[[Writer, Scope, int], Lines]] = [
    Writer.condition, Writer.condition, Writer.condition, Writer.loop, Writer.loop, Writer.loop, Writer.while_loop,
    Writer.attempt, Writer.attempt, Writer.attempt, Writer.managed, Writer.managed, Writer.closure,
]  # fmt: skip


def generate(random: Random) -> str:
    """The text of a program.

    Args:
        random: where every choice comes from; the same state gives the same program.

    Returns:
        Source that defines ``f``; ``constants``, the values of parameters that are fixed;
        ``types``, exact types of others; and ``calls``, functions that make the arguments of one
        call (the list of those that are not fixed, ``*rest``, keywords).
    """
    return Writer(random).program()
