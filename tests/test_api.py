"""The public functions: what they take, what they give back, and what they say when they cannot."""

import abc
import copy
import dataclasses
import functools
import inspect
import logging
import pickle
import sys
import types
import typing
from unittest import mock

import pytest

import bcspec
from bcspec import EntryGuard, Knowledge


@pytest.fixture
def said(caplog):
    """Messages logged during the test."""
    caplog.set_level(logging.INFO, logger="bcspec")
    return lambda: [record.getMessage() for record in caplog.records]


# -- factories ------------------------------------------------------------------------------------


def unrolled(function):
    """Whether the residual of an adder has no loop."""
    return "for " not in bcspec.explain(function) and "[item" in bcspec.explain(function)


def make_adder(numbers):
    def adder(x):
        return [x + number for number in numbers]

    return adder


def returns(text, function):
    """Whether the residual of a function consists of one return."""
    lines = bcspec.explain(function).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("def "))
    return lines[start + 1].strip() == f"return {text}"


def test_a_factory_that_returns_a_function():
    make = bcspec.specialize(make_adder)
    adder = make((1, 2))
    assert adder(10) == [11, 12]
    assert unrolled(adder)
    assert bcspec.original(adder).__code__ is make_adder((1, 2)).__code__
    assert (make.__name__, make.__wrapped__) == ("make_adder", make_adder)


def test_each_result_is_specialised_for_its_own_constants():
    make = bcspec.specialize(make_adder)
    first, second = make((1,)), make((5, 6))
    assert (first(0), second(0), first(1)) == ([1], [5, 6], [2])


@pytest.mark.parametrize(
    "options",
    [{"strict": True}, {"knowledge": Knowledge()}, {"guards": ()}, {"after": 1}, {}],
    ids=lambda options: "".join(options) or "none",
)
def test_options(options):
    @bcspec.specialize(**options)
    def make(numbers):
        def adder(x):
            return [x + number for number in numbers]

        return adder

    adder = make((1, 2))
    assert [adder(10) for _ in range(4)] == [[11, 12]] * 4
    assert bcspec.original(adder) is not adder
    assert unrolled(adder)


def test_a_factory_that_returns_several_functions():
    def make(n):
        def f(x):
            return x + n

        def g(x):
            return x * n

        return f, [g, f], {"f": f, "n": n, "s": "text"}, n

    f, (g, again), table, n = bcspec.specialize(make)(3)
    assert (f(1), g(2), table["f"](5), table["n"], table["s"], n) == (4, 6, 8, 3, "text", 3)
    assert f is again and f is table["f"], "one function stays one"
    assert returns("x * 3", g)


def test_a_result_that_contains_itself():
    def make():
        functions = {"f": lambda x: x}
        functions["self"] = functions
        functions["list"] = [functions["f"]]
        functions["list"].append(functions["list"])
        return functions

    result = bcspec.specialize(make)()
    assert result["self"] is result and result["list"][1] is result["list"]
    assert result["f"] is result["list"][0]
    bcspec.explain(result["f"])


@pytest.mark.parametrize("value", [None, 5, "text", len, int, functools.partial(int), object()])
def test_other_results_come_back_as_they_are(value):
    assert bcspec.specialize(lambda: value)() is value


def test_an_error_in_the_factory_is_the_users():
    @bcspec.specialize
    def make():
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        make()


def test_methods_and_classes_as_factories():
    class Maker:
        def __init__(self, n):
            self.n = n

        @bcspec.specialize
        def make(self):
            n = self.n
            return lambda x: x + n

    assert Maker(4).make()(1) == 5
    assert inspect.signature(Maker.make) == inspect.signature(Maker.make.__wrapped__)


# -- instances with a __call__ ----------------------------------------------------------------------


class Scaler:
    """Scales."""

    def __init__(self, k):
        self.k = k

    def __call__(self, x, *, shift=0):
        return x * self.k + shift

    def twin(self):
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


FROZEN = Knowledge(frozen_types={Scaler: "set once"})


@pytest.fixture
def scaler():
    return bcspec.specialize(Scaler, knowledge=FROZEN)(3)


def test_the_instance_stays_itself(scaler):
    assert scaler(2) == 6 and scaler(x=2, shift=1) == 7
    assert scaler.__class__ is Scaler and isinstance(scaler, Scaler)
    assert inspect.signature(scaler) == inspect.signature(Scaler(3))
    assert (scaler.__doc__, type(scaler).__name__, type(scaler).__module__) == (
        "Scales.",
        "Scaler",
        __name__,
    )
    scaler.other = 1
    assert vars(scaler) == {"k": 3, "other": 1}
    with pytest.raises(TypeError):
        scaler()


def test_an_instance_can_be_explained_and_has_its_original(scaler):
    assert "(x * 3)" in bcspec.explain(scaler)
    generic = bcspec.original(scaler)
    assert generic.__self__ is scaler and generic.__func__ is Scaler.__call__
    bcspec.invalidate(scaler)
    scaler.k = 4
    assert scaler(1) == 4


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda scaler: pickle.loads(pickle.dumps(scaler)),
        lambda scaler: pickle.loads(pickle.dumps(scaler, 0)),
        Scaler.twin,
        lambda scaler: type(scaler)(3),
        lambda scaler: scaler.__class__(3),
    ],
)
def test_another_instance_has_its_own_state(scaler, copied):
    other = copied(scaler)
    assert other(2) == 6
    other.k = 10
    assert (other(2), scaler(2)) == (20, 6)


def test_the_class_of_an_instance_can_be_changed(scaler):
    class Other(Scaler):
        def __call__(self, x):
            return "other"

    scaler.__class__ = Other
    assert type(scaler) is Other and scaler(1) == "other"


def test_other_instances_of_the_class_are_left_alone(scaler):
    assert type(Scaler(1)) is Scaler and Scaler(5)(2) == 10


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: int

    def __call__(self, x):
        return x * self.k


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class Named(typing.NamedTuple):
    k: int

    def __call__(self, x):
        return x * self.k


class Abstract(abc.ABC):
    def __init__(self, k):
        self.k = k

    @abc.abstractmethod
    def __call__(self, x): ...


class Concrete(Abstract):
    def __call__(self, x):
        return x * self.k


@pytest.mark.parametrize("cls", [Frozen, Slotted, Named, Concrete])
def test_instances_of_many_kinds(cls):
    instance = bcspec.specialize(cls)(3)
    assert instance(2) == 6
    assert isinstance(instance, cls) and instance.__class__ is cls
    assert bcspec.original(instance).__func__ is cls.__call__
    if cls in (Frozen, Named):
        assert instance == cls(3) and hash(instance) == hash(cls(3))
    assert copy.copy(instance)(2) == 6


class Registering:
    made = []

    def __init_subclass__(cls, *, key):
        Registering.made.append(key)


class Registered(Registering, key=1):
    def __call__(self, x):
        return x


class Meta(type):
    made = []

    def __init__(cls, *args):
        Meta.made.append(args[0])


class OfMeta(metaclass=Meta):
    def __call__(self, x):
        return x


@pytest.mark.parametrize("cls", [Registered, OfMeta])
def test_no_user_code_runs_to_specialise_an_instance(cls, said):
    instance = bcspec.specialize(cls)()
    assert instance(4) == 4 and type(instance) is cls
    assert (Registering.made, Meta.made) == ([1], ["OfMeta"])
    assert "was not specialised: making a subclass would run" in said()[0]


class Once:
    first = True

    def __call__(self):
        first, self.first = self.first, False
        return first


def test_an_instance_is_specialised_after_some_calls():
    known = Knowledge(frozen_types={Once: "settles in the first call"})
    once = bcspec.specialize(Once, knowledge=known, after=1)()
    assert [once() for _ in range(3)] == [True, False, False]
    assert "return False" in bcspec.explain(once)


def test_a_method_is_specialised_after_some_calls():
    known = Knowledge(frozen_types={Once: "settles in the first call"})
    method = bcspec.partial_eval(Once().__call__, knowledge=known, after=1)
    assert [method() for _ in range(3)] == [True, False, False]
    assert "return False" in bcspec.explain(method)
    assert isinstance(method, types.MethodType)


# -- partial_eval -----------------------------------------------------------------------------------


def every_kind(a, b, /, c, d=4, *args, e, f=6, **kwargs):
    return (a, b, c, d, args, e, f, kwargs)


@pytest.mark.parametrize(
    ("constants", "signature"),
    [
        ({"a": 1}, "(b, /, c, d=4, *args, e, f=6, **kwargs)"),
        ({"a": 1, "b": 2}, "(c, d=4, *args, e, f=6, **kwargs)"),
        ({"c": 3}, "(a, b, /, d=4, *args, e, f=6, **kwargs)"),
        ({"d": 3}, "(a, b, /, c, *args, e, f=6, **kwargs)"),
        ({"e": 5}, "(a, b, /, c, d=4, *args, f=6, **kwargs)"),
        ({"f": 5, "a": 0}, "(b, /, c, d=4, *args, e, **kwargs)"),
    ],
)
def test_fixed_parameters_leave_the_signature(constants, signature):
    fast = bcspec.partial_eval(every_kind, constants, strict=True)
    assert str(inspect.signature(fast)) == signature
    values = {"a": 1, "b": 2, "c": 3, "d": 4, **constants}
    options = {"e": 5, "f": 7, "g": 8, **constants}
    expected = every_kind(
        *(values[name] for name in "abcd"), "more", **{n: options[n] for n in "efg"}
    )
    given = [values[name] for name in "abcd" if name not in constants]
    for _ in range(2):
        named = {n: options[n] for n in "efg" if n not in constants}
        assert fast(*given, "more", **named) == expected
        bcspec.invalidate(fast)


def test_a_bound_method_has_its_instance_fixed():
    scaler = Scaler(3)
    fast = bcspec.partial_eval(scaler.__call__, knowledge=FROZEN, strict=True)
    assert fast(2) == 6 and fast(2, shift=1) == 7
    assert inspect.signature(fast) == inspect.signature(scaler.__call__)
    assert bcspec.original(fast) is Scaler.__call__


def test_types_of_parameters():
    def f(x):
        return "list" if isinstance(x, list) else "other"

    fast = bcspec.partial_eval(f, types={"x": list}, strict=True)
    assert fast([1]) == "list" and returns("'list'", fast)


def test_specialising_twice():
    fast = bcspec.partial_eval(make_adder((1, 2)), strict=True)
    again = bcspec.partial_eval(fast, strict=True)
    assert again(1) == [2, 3]
    assert bcspec.original(again) is fast
    bcspec.invalidate(fast)
    assert fast(1) == again(1) == [2, 3]


# -- bad input --------------------------------------------------------------------------------------


class CallableInstance:
    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    "f", [len, int, [].append, functools.partial(max, 1), CallableInstance(), str.join]
)
def test_what_is_no_python_function_comes_back(f, said):
    assert bcspec.partial_eval(f) is f
    assert bcspec.partial_eval(f, after=2) is f
    (first, second) = said()
    assert first == second and "not specialised: it is not a Python function or method" in first
    with pytest.raises(bcspec.SpecializationError, match="it is not a Python function"):
        bcspec.partial_eval(f, strict=True)


def test_fixed_arguments_are_kept_where_nothing_can_be_specialised():
    assert bcspec.partial_eval(functools.partial(pow, 2), {"mod": 5})(3) == 3


@pytest.mark.parametrize("f", [None, 5, "text", types.SimpleNamespace()])
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"after": 1}, {"constants": {"x": 1}}])
def test_what_cannot_be_called_is_an_error(f, options):
    with pytest.raises(TypeError, match="a function is expected, not"):
        bcspec.partial_eval(f, **options)


def test_specialize_needs_a_factory():
    with pytest.raises(TypeError, match="functions that return functions, not 5"):
        bcspec.specialize(5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"constants": {"zz": 1, "yy": 2}}, TypeError, "every_kind has no parameter yy, zz"),
        ({"constants": {"args": ()}}, TypeError, "every_kind has no parameter args"),
        ({"constants": {5: 1}}, TypeError, "every_kind has no parameter 5"),
        ({"constants": ["a"]}, TypeError, "constants maps names of parameters to values"),
        ({"types": {"zz": int}}, TypeError, "types: every_kind has no parameter zz"),
        ({"types": {"a": 5}}, TypeError, "types: a=5 is not a type"),
        ({"after": -1}, ValueError, "after is a number of calls"),
        ({"after": 1, "strict": True}, ValueError, "not to be combined"),
        ({"after": 1, "constants": {"a": 1}}, ValueError, "not to be combined"),
    ],
)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        bcspec.partial_eval(every_kind, **options)


def looks_at_frames():
    return sys._getframe().f_code.co_name


def test_refusals_say_what_where_and_why(said):
    assert bcspec.partial_eval(looks_at_frames) is looks_at_frames
    (message,) = said()
    line = looks_at_frames.__code__.co_firstlineno
    assert message.startswith(f"looks_at_frames ({__file__}:{line}) was not specialised: ")
    assert "looks at frames or at its own locals" in message
    with pytest.raises(bcspec.SpecializationError) as caught:
        bcspec.partial_eval(looks_at_frames, strict=True)
    assert str(caught.value) == message
    assert isinstance(caught.value, bcspec.BcspecError)


@pytest.mark.parametrize("how", ["specialised", "refused", "turned off"])
def test_fixed_parameters_are_passed_alike_whatever_becomes_of_it(how, monkeypatch):
    monkeypatch.setenv("BCSPEC_DISABLE", "1" if how == "turned off" else "")

    if how == "refused":
        monkeypatch.setattr(bcspec.api, "evaluate", mock.Mock(side_effect=bcspec.BcspecError))

    def f(a, b, /, c=3, *args, d, e=5, **kwargs):
        return (a, b, c, args, d, e, kwargs)

    fast = bcspec.partial_eval(f, {"a": 1, "e": 0})
    assert str(inspect.signature(fast)) == "(b, /, c=3, *args, d, **kwargs)"
    assert (fast.__name__, fast.__doc__) == (f.__name__, f.__doc__)
    assert fast(2, d=4) == (1, 2, 3, (), 4, 0, {})
    assert fast(2, 7, 8, 9, d=4, z=1) == (1, 2, 7, (8, 9), 4, 0, {"z": 1})
    with pytest.raises(TypeError, match="required"):
        fast(2)
    with pytest.raises(TypeError):
        fast(b=2, d=4)


def test_a_method_that_is_refused_keeps_what_is_fixed():
    class Model:
        def run(self, a, b):
            return self, a, b, locals()

    model = Model()
    assert bcspec.partial_eval(model.run) == model.run
    assert bcspec.partial_eval(model.run, {"a": 1})(2)[:3] == (model, 1, 2)


def test_a_fault_of_ours_costs_nothing(monkeypatch, said):
    def broken(request):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(bcspec.api, "evaluate", broken)
    assert bcspec.partial_eval(every_kind) is every_kind
    assert "was not specialised: internal fault, ZeroDivisionError: ours" in said()[0]
    with pytest.raises(bcspec.SpecializationError, match="internal fault"):
        bcspec.partial_eval(every_kind, strict=True)


def test_strict_mode_reaches_what_a_factory_returns():
    @bcspec.specialize(strict=True)
    def make():
        def f():
            return locals()

        return f

    with pytest.raises(bcspec.SpecializationError, match="looks at frames"):
        make()


def test_what_looks_at_frames_matters_where_it_is_reached():
    def f(x, debug):
        if debug:
            return sys._getframe().f_code.co_name, sorted(locals())
        return x + 1

    fast = bcspec.partial_eval(f, constants={"debug": False}, strict=True)
    assert fast(1) == 2
    with pytest.raises(bcspec.SpecializationError, match="looks at frames"):
        bcspec.partial_eval(f, constants={"debug": True}, strict=True)
    with pytest.raises(bcspec.SpecializationError, match="looks at frames"):
        bcspec.partial_eval(f, strict=True)


def test_turned_off_by_the_environment(monkeypatch):
    monkeypatch.setenv("BCSPEC_DISABLE", "1")
    assert bcspec.partial_eval(every_kind) is every_kind
    assert bcspec.partial_eval(every_kind, after=1) is every_kind
    assert type(bcspec.specialize(Scaler)(3)) is Scaler
    numbers = make_adder((1,))
    assert bcspec.specialize(lambda: numbers)() is numbers


@pytest.mark.parametrize("obj", [5, len, make_adder, Scaler, Scaler(1), Scaler(1).__call__])
def test_original_and_explain_of_other_objects(obj):
    assert bcspec.original(obj) is obj
    with pytest.raises(TypeError, match="is not a specialised function"):
        bcspec.explain(obj)
    bcspec.invalidate(obj)  # nothing to do


def test_explain_of_what_waits():
    later = bcspec.partial_eval(make_adder((1,)), after=1)
    assert bcspec.original(later).__code__ is make_adder((1,)).__code__
    with pytest.raises(TypeError, match="it waits for the calls"):
        bcspec.explain(later)


# -- no_unfold and assume_constant ---------------------------------------------------------------------


def test_no_unfold_keeps_a_call():
    def make(mark):
        @mark
        def helper(x):
            return x + 1

        def f(x):
            return helper(x)

        return f

    kept = bcspec.partial_eval(make(bcspec.no_unfold), strict=True)
    opened = bcspec.partial_eval(make(lambda f: f), strict=True)
    assert kept(1) == opened(1) == 2
    assert returns("helper(x)", kept) and returns("x + 1", opened)


def test_no_unfold_of_methods_and_builtins():
    class Helper:
        def run(self, x):
            return x

    bcspec.no_unfold(Helper().run)
    assert Helper.run.__bcspec_no_unfold__
    with pytest.raises(TypeError, match="name it in Knowledge"):
        bcspec.no_unfold(len)


def test_assume_constant():
    settings = types.SimpleNamespace(verbose=False, items=[1, 2])
    bcspec.assume_constant(settings, reason="set at start")

    def make(settings):
        def f(x):
            return (x, "verbose") if settings.verbose else x

        return f

    fast = bcspec.partial_eval(make(settings), strict=True)
    assert returns("x", fast)
    assert "verbose: declared, set at start" in bcspec.explain(fast)
    other = bcspec.partial_eval(make(types.SimpleNamespace(verbose=False)), strict=True)
    assert not returns("x", other)


# -- entry guards ----------------------------------------------------------------------------------------


class Flags:
    on = False


FLAG = EntryGuard(Flags, "on", False, "a test sets it")


def captures_its_parameters(x, *args, k=1, **kwargs):
    if Flags.on:
        return "on", lambda: (x, args, k, kwargs)
    return "off", lambda: (x, args, k, kwargs)


def test_the_generic_function_gets_parameters_that_are_in_cells(monkeypatch):
    fast = bcspec.partial_eval(captures_its_parameters, guards=[FLAG], strict=True)
    for on in (False, True):
        monkeypatch.setattr(Flags, "on", on)
        for function in (fast, captures_its_parameters):
            word, get = function(1, 2, k=3, m=4)
            assert (word, get()) == ("on" if on else "off", (1, (2,), 3, {"m": 4}))


def test_a_generator_has_no_entry_guard(monkeypatch, said):
    def numbers(n):
        if Flags.on:
            yield "on"
        yield from range(n)

    kept = bcspec.partial_eval(numbers, guards=[FLAG])
    assert kept is numbers
    assert "is a generator or coroutine: nothing can be read at the start" in said()[0]


# -- the face -------------------------------------------------------------------------------------------


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        """Replaced."""
        return function(*args, **kwargs)

    return wrapper


@decorated
def public(a: int, b: str = "x", *args, c: float = 1.5, **kwargs) -> bool:
    """What it does."""
    return (a, b, args, c, kwargs)


public.attribute = ["kept"]

LATER = {"at once": 0, "later": 2}


@pytest.fixture(params=LATER)
def faced(request):
    fast = bcspec.partial_eval(public, after=LATER[request.param])
    for _ in range(4):
        assert fast(1, "y", 2, c=3, d=4) == public(1, "y", 2, c=3, d=4)
    return fast


def test_the_face_is_that_of_the_generic_function(faced):
    for name in functools.WRAPPER_ASSIGNMENTS:
        assert getattr(faced, name) == getattr(public, name)
    assert vars(faced) == vars(public)
    assert faced.attribute is public.attribute
    assert faced.__wrapped__ is public.__wrapped__
    assert inspect.signature(faced) == inspect.signature(public)
    assert inspect.unwrap(faced) is inspect.unwrap(public)
    assert inspect.getsource(faced) == inspect.getsource(public)
    assert inspect.getfile(faced) == inspect.getfile(public)
    assert typing.get_type_hints(faced) == typing.get_type_hints(public)
    assert faced.__code__.co_firstlineno == public.__code__.co_firstlineno
    assert faced.__globals__ is public.__globals__
    assert repr(faced).split(" at ")[0] == repr(public).split(" at ")[0]


def test_it_can_be_wrapped_bound_and_copied(faced):
    again = decorated(faced)
    assert again.__wrapped__ is faced and again(1) == public(1)
    assert copy.copy(faced) is faced and copy.deepcopy(faced) is faced

    class Holder:
        method = faced

    holder = Holder()
    assert holder.method("y") == public(holder, "y")
    assert functools.partial(faced, 1)() == public(1)


def test_annotations_without_the_fixed_ones():
    fast = bcspec.partial_eval(public.__wrapped__, {"b": "y"}, strict=True)
    wanted = {"a": int, "c": float, "return": bool}
    assert fast.__annotations__ == wanted


def test_defaults_of_its_own():
    def f(a, b=1, *, c=2):
        return a, b, c

    fast = bcspec.partial_eval(f, strict=True)
    fast.__defaults__ = (5,)
    assert (fast(0), f(0)) == ((0, 5, 2), (0, 1, 2))


pickled = bcspec.partial_eval(make_adder, strict=True)


def test_pickles_go_by_name(monkeypatch):
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(pickled)  # its name is that of the generic function
    monkeypatch.setattr(sys.modules[__name__], "make_adder", pickled)
    assert pickle.loads(pickle.dumps(pickled)) is pickled


def test_a_specialised_function_can_be_patched(monkeypatch):
    space = types.SimpleNamespace(f=bcspec.partial_eval(make_adder((1,)), strict=True))
    with mock.patch.object(space, "f", autospec=True) as double:
        double.return_value = "mocked"
        assert space.f(1) == "mocked"
        with pytest.raises(TypeError):
            space.f(1, 2)
    assert space.f(1) == [2]


def coroutine_function():
    async def f():
        return 3

    return f


def generator_function():
    def f():
        yield 3

    return f


def asynchronous_generator_function():
    n = 3

    async def f():
        yield n

    return f


def run(made):
    """All that a coroutine, a generator or an asynchronous generator gives."""
    if inspect.isgenerator(made):
        return list(made)
    try:
        (made if inspect.iscoroutine(made) else made.__anext__()).send(None)
    except StopIteration as stop:
        return [stop.value]


@pytest.mark.parametrize(
    "make", [coroutine_function, generator_function, asynchronous_generator_function]
)
@pytest.mark.parametrize("after", [0, 1])
def test_what_suspends_is_still_known_as_such(make, after):
    tests = [inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction]
    generic = make()
    kinds = [test(generic) for test in tests]
    fast = bcspec.partial_eval(generic, after=after)
    for _ in range(3):
        assert [test(fast) for test in tests] == kinds
        assert run(fast()) == [3]
    bcspec.invalidate(fast)
    assert [test(fast) for test in tests] == kinds
    assert run(fast()) == [3]
