"""Templates of expressions and statements for random programs.

``{int}`` stands for an expression of that kind, ``{v:list}`` for a variable of it, ``{new_int}``
for a variable to be bound.  Kinds are a rough guide that keeps most programs running for a while;
nothing depends on their being right, since an exception is as good an outcome as a value.
"""

from __future__ import annotations

#: Kind -> templates of expressions; the first one is what deep expressions end with.
EXPRESSIONS: dict[str, list[str]] = {
    "int": [
        "{number}", "{v:int}", "{v:int}", "{v:int}", "{int} + {int}", "({int} * {int}) % 11", "-{int}",
        "{int} - {int}", "len({seq})", "({int} if {bool} else {int})", "sum({ints})", "max({int}, {int})",
        "min({ints}, default={int})", "abs({int})", "{seq}[{int}]", "{plain}.x", "{plain}.total()",
        "{v:dict}[{key}]", "{dict}.get({key}, {int})", "{obj}.value", "{obj}.poke({int})", "fact({number})",
        "next(iter({ints}), {int})", "(lambda p, q={int}: p + q)({int})", "getattr({plain}, 'x', {int})",
        "functools.partial(add, {int})({int})", "add(b={int}, a={int})", "add(*{v:pair})", "({new_int} := {int})",
        "{int} // {int}", "Point({int}).norm", "Pair({int}).y", "Pair({int})[0]", "Color.RED.value", "int({bool})",
        "(1, 2.0, True)[{int}]", "wrapped({int})", "{plain}({int})", "[*{seq}, {int}][-1]", "{seq}.index({int})",
        "{seq}.count({int})", "divmod({int}, 3)[1]", "{call}", "{call}", "{call}", "{int} & {int}", "({int}, {int})[{bool}]",
        "sum(e for e in {ints})", "sum([e for e in {ints} if {bool}])", "{v:list}.pop()", "{v:list}.pop({int})",
        "next({v:gen}, {int})", "next({v:gen})", "{v:gen}.send({int})", "{v:gen}.throw({exception})",
        "len({str})", "(lambda *args, **kw: len(args) + len(kw))(*{seq}, k={int})", "dict(a={int})['a']",
    ],
    "bool": [
        "{truth}", "{v:bool}", "{int} < {int}", "{int} == {int}", "{int} <= {int} < {int}", "{any} is None",
        "{any} is not None", "not {any}", "isinstance({any}, {cls})", "{int} in {seq}", "{bool} and {bool}",
        "({bool} or {bool})", "all({ints})", "any({ints})", "all(e < {int} for e in {ints})",
        "any(e == {int} for e in {ints})", "callable({any})", "hasattr({plain}, 'x')", "hasattr({any}, 'append')",
        "{str} == {str}", "bool({any})", "{key} in {dict}", "Plain.less({int}, {int})", "{seq} == {seq}",
        "type({any}) is {cls}", "issubclass(Sub, Plain)", "{seq} != {seq}", "Loud({int}) == {int}", "bool(Loud({int}))",
        "{v:none} is None", "Color.RED is Color.BLUE", "isinstance({any}, ({cls}, {cls}))",
    ],
    "str": [
        "{text}", "{v:str}", "{text}", "{str} + {str}", "f'{{{int}}}-{{{str}}}'", "f'{{{int}!r:>3}}'", "{str}.upper()",
        "'%s' % ({int},)", "{obj}.label", "type({plain}).kind", "str({int})", "({str} or {str})", "'-'.join([{str}, {str}])",
        "Color.RED.name", "{str} * 2", "{str}[{int}:]", "wrapped.__name__", "repr({int})",
    ],
    "list": [
        "[{int}, {int}]", "{v:list}", "{v:list}", "[]", "[{int}]", "[*{seq}, {int}]", "[e for e in {ints}]",
        "[e + {int} for e in {ints} if {bool}]", "list({ints})", "{v:list}[{int}:]", "{v:list}[::-1]", "{list} + {list}",
        "[e for row in [{seq}, {seq}] for e in row]", "sorted({ints})", "{v:list}.copy()", "[i for i, e in enumerate({seq})]",
        "list(map(abs, {ints}))", "list(upto({number}))", "[lambda: e for e in {ints}] and [{int}]", "list(noisy({seq}))",
        "[x * y for x, y in zip({seq}, {seq})]", "list(dict(a={int}).values())", "list({v:dict}.values())",
        "list(reversed({seq}))",
    ],
    "tuple": [
        "({int}, {int})", "{v:tuple}", "()", "({int},)", "tuple({ints})", "(*{seq}, {int})", "{tuple} + {tuple}",
        "{v:tuple}[1:]", "Pair({int}, {int})", "{plain}.both", "tuple(e for e in {ints})", "{v:tuple}[:{int}]",
        "(lambda *args: args)({int}, {int})",
    ],
    "dict": [
        "{{'a': {int}}}", "{v:dict}", "{{}}", "{{'a': {int}, 'b': {int}}}", "dict(a={int}, b={int})",
        "{{**{dict}, 'c': {int}}}", "{{k: {int} for k in ('a', 'b')}}", "{{{int}: {int}, {str}: {int}}}",
        "(lambda **kw: kw)(a={int}, **{dict})", "dict(zip(('a', 'b'), {seq}))", "{{k: v for k, v in {dict}.items()}}",
    ],
    "obj": ["Obj({name})", "{v:obj}", "Obj({name})", "Obj({name}, {int})", "{v:obj}", "({obj} if {bool} else {obj})"],
    "plain": [
        "Plain({int})", "{v:plain}", "Plain({int}, y={int})", "Sub({int})", "Plain.of({int})", "Sub.of(x={int})", "Slotted({int})",
    ],
    "none": ["None", "{v:none}", "{v:list}.append({any})", "{v:list}.extend({ints})", "{v:dict}.update(a={int})"],
    "fun": ["{v:fun}", "(lambda p={int}: p)", "(lambda *p: {int})", "{v:fun}"],
    "pair": ["({int}, {int})", "{v:pair}", "[{int}, {int}]"],
    "manager": [
        "Manager({name})", "Manager({name}, {bool})", "contextlib.nullcontext({any})", "scope({name})", "Holder({obj})",
        "{v:manager}", "contextlib.suppress(Boom)", "scope({name})", "tolerant({name})", "{cmcall}", "{cmcall}", "{cmcall}",
    ],
    "exception": ["Boom({int})", "Boom", "Fault({int}, {str})", "ValueError({str})", "KeyError({int})"],
}  # fmt: skip

#: Kinds that stand for one of several.
CHOICES: dict[str, list[str]] = {
    "seq": ["list", "list", "tuple"],
    "ints": ["list", "tuple", "list", "range", "generator"],
    "any": ["int", "bool", "str", "list", "tuple", "dict", "obj", "plain", "none", "fun"],
}

#: Expressions that are whole kinds of their own.
EXPRESSIONS["range"] = ["range({number})", "range({int}, {number})", "range({number}, 0, -1)"]
EXPRESSIONS["gen"] = ["{gencall}", "careful({seq})", "{gencall}", "careful({obj}, {int})"]
EXPRESSIONS["generator"] = ["upto({number})", "noisy({seq})", "(e * 2 for e in {seq})", "{gencall}"]

SIMPLE: list[str] = [
    "{new_int} = {int}", "{new_int} = {int}", "{new_list} = {list}", "{new_tuple} = {tuple}", "{new_dict} = {dict}",
    "{new_obj} = {obj}", "{new_obj} = Obj({name})", "{new_plain} = {plain}", "{new_str} = {str}", "{new_bool} = {bool}",
    "{new_none} = {none}", "{v:int} += {int}", "{v:list} += {seq}", "{v:str} += {str}", "log({int}, {str})", "log({any})",
    "log('mark')", "log('mark')", "{new_int}, {new_int} = {seq}", "{new_int}, *{new_list} = {seq}", "{new_int} = {new_int} = {int}",
    "{v:list}.append({int})", "{v:list}.append({obj})", "{v:list}.extend({ints})", "{v:list}.clear()", "{v:dict}[{key}] = {int}",
    "{v:dict}[{key}] = {obj}", "{v:list}[{int}] = {int}", "{v:list}[1:] = {ints}", "{v:plain}.x = {int}", "{v:plain}.both = {pair}",
    "{v:plain}.y += {int}", "{v:obj}.value = {any}", "del {v:int}", "del {v:obj}", "del {v:list}[{int}]", "del {v:dict}[{key}]",
    "{v:obj} = None", "{v:list} = []", "{any}", "{call}", "assert {bool}, {int}", "{new_pair} = {pair}", "{new_manager} = {manager}",
    "{new_fun} = lambda p={int}, *q: p", "log(*{seq})", "{v:dict}.pop({key}, None)", "{v:dict}.setdefault({key}, {obj})",
    "{new_gen} = {gen}", "log(next({v:gen}, {int}))", "{v:gen}.close()", "{v:gen}.throw({exception})", "{v:gen}.send(None)",
    "{v:list}[:] = []", "{new_int}, ({new_int}, {new_int}) = {int}, {pair}", "{v:obj}.poke()", "{v:list}.insert(0, {int})",
]  # fmt: skip

CONSTANTS: list[tuple[str, str]] = [
    ("int", "0"), ("int", "3"), ("int", "1"), ("bool", "True"), ("bool", "False"), ("none", "None"), ("str", "'mode'"),
    ("str", "''"), ("tuple", "(1, 2)"), ("tuple", "()"), ("tuple", "(1, 2, 3)"), ("tuple", "Pair(4)"), ("list", "[1, 2]"),
    ("dict", "{'a': 1}"), ("plain", "Plain(2)"), ("plain", "Sub(1)"), ("fun", "functools.partial(add, 1)"), ("obj", "Obj('k')"),
    ("fun", "Plain(3).total"), ("int", "1.0"), ("int", "-0.0"), ("any", "Color.BLUE"), ("any", "Point(2, 1)"), ("tuple", "range(3)"),
    ("manager", "Manager('m')"), ("manager", "contextlib.nullcontext()"), ("fun", "Plain.of"), ("fun", "abs"), ("fun", "wrapped"),
]  # fmt: skip

INPUTS: dict[str, list[str]] = {
    "int": ["0", "1", "2", "5", "-1", "None"],
    "bool": ["True", "False"],
    "str": ["'s'", "''", "'text'"],
    "list": ["[]", "[1]", "[3, 1, 2]", "[0, 4]", "(1, 2)"],
    "tuple": ["()", "(7,)", "(1, 2)", "(1, 2, 3)"],
    "dict": ["{}", "{'a': 2}", "{'b': 5, 'a': 1}"],
    "obj": ["Obj('in')", "Obj('in', 4)"],
    "plain": ["Plain(1)", "Sub(2)", "Loud(1)"],
    "fun": ["abs", "(lambda *p: 3)", "Plain(2).total"],
}

#: Kinds of inputs whose exact type can be declared.
TYPES: dict[str, str] = {
    "int": "int",
    "bool": "bool",
    "str": "str",
    "list": "list",
    "tuple": "tuple",
    "dict": "dict",
}

#: Targets and iterables of `for` loops.
LOOPS: list[str] = [
    "{new_int} in range({number})", "{new_int} in {seq}", "{new_int} in (1, 2, 3)", "{new_int} in {ints}",
    "{new_int}, {new_int} in enumerate({seq})", "{new_int}, {new_int} in zip({seq}, {seq})", "{new_int} in reversed({seq})",
    "{new_str}, {new_int} in {dict}.items()", "{new_str} in {dict}", "{new_int} in {v:list}", "{new_int} in {gencall}",
    "{new_int}, {new_int} in enumerate({ints}, {int})", "{new_obj} in [{obj}, {obj}]", "{new_int} in map({fun}, {seq})",
    "{new_int} in {dict}.values()", "{new_plain} in ({plain}, {plain})", "{new_int}, {new_obj} in zip({ints}, [{obj}, {obj}])",
]  # fmt: skip
