"""What is known of parts of unknown objects once a check has said yes, and how long it holds."""

import operator

import pytest

from bcspec.knowledge import FIRST, Established, Refinement
from tests.harness import residual_of

seen = []
examined = seen.append
check_answer = operator.itemgetter("answer")
nothing_to_find = Refinement(established=(Established(examined, lambda *_: True),))
box = Refinement(attributes={"part": nothing_to_find}, items={"key": nothing_to_find})


class Box(dict):
    part = "part"

    def __init__(self, answer):
        self["key"], self["answer"] = "item", answer


def examinations(make, known=box, answer=True):
    """How often the residual function examines something; generic and residual agree on the result."""

    f = make(check_answer)
    fn, fast = residual_of(f, types={"x": known}, check=check_answer)
    assert f(Box(answer)) == fast(Box(answer))
    held = dict(zip(fn.freevars, (cell.cell_contents for cell in fast.__closure__ or ())))
    loads = [op for block in fn.blocks for op in block.ops if op.name == "load_deref"]
    return sum(held[op.arg] is examined for op in loads)


def passed(check):
    def f(x):
        if check(x):
            examined(x.part)
            examined(x["key"])
            return 1
        return 2

    return f


def failed(check):
    def f(x):
        if not check(x):
            examined(x.part)
            return 1
        return 2

    return f


def unasked(check):
    def f(x):
        return examined(x.part), check(x)

    return f


def unjudged(check):
    def f(x):
        check(x)
        return examined(x.part)

    return f


def late(check):
    def f(x):
        answer = check(x)
        repr(x)
        if answer:
            return examined(x.part)
        return 2

    return f


def disturbed(check):
    def f(x):
        if check(x):
            examined(x.part)
            repr(x)
            return examined(x.part)
        return 2

    return f


def disturbed_by_an_unknown_attribute(check):
    def f(x):
        if check(x):
            x.__len__  # noqa: B018
            return examined(x.part)
        return 2

    return f


def in_a_loop(check):
    def f(x):
        if check(x):
            for _ in x:
                examined(x.part)
        return 2

    return f


def other_parts(check):
    def f(x):
        if check(x):
            return examined(x.__class__), examined(x.get("key")), examined(x)
        return 2

    return f


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (passed, 0),
        (failed, 1),
        (unasked, 1),
        (unjudged, 1),
        (late, 1),
        (disturbed, 1),
        (disturbed_by_an_unknown_attribute, 1),
        (in_a_loop, 1),
        (other_parts, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("answer", [True, False])
def test_parts_are_known_from_the_check_to_the_next_effect(make, count, answer):
    assert examinations(make, answer=answer) == count


def test_what_is_known_of_a_parameter_holds_throughout():
    def make(check):
        def f(x):
            repr(x)
            return examined(x)

        return f

    assert examinations(make, Refinement(established=nothing_to_find.established)) == 0
    assert examinations(make) == 1


def test_the_class_of_a_refinement_is_an_exact_type():
    def make(check):
        def f(x):
            return isinstance(x, dict) and len(x)

        return f

    fn, fast = residual_of(make(None), types={"x": Refinement(Box)})
    assert fast(Box(True)) == 2
    assert [op.name for block in fn.blocks for op in block.all_ops()].count("branch") == 0


def test_a_call_that_gives_back_its_first_argument():
    def unwrap(x):
        raise AssertionError

    def f(x):
        return unwrap(x)

    same = Refinement(established=(Established(unwrap, lambda *_: True, gives=FIRST),))
    _, fast = residual_of(f, types={"x": same})
    assert fast(5) == 5


@pytest.mark.parametrize("known", [(True, True), (True, False)])
def test_a_call_with_a_group(known):
    """It is needless only if it is for each."""
    asked = []

    def examine(group, limits):
        asked.append(group)
        return True

    fact = Established(
        examine, lambda place, count, limits: count == 2 > limits[place], gives=True, grouped=True
    )
    refinements = [Refinement(established=(fact,) if each else ()) for each in known]

    def f(x, y):
        return examine((x, y), (0, 1))

    _, fast = residual_of(f, types=dict(zip("xy", refinements)))
    assert fast("x", "y") is True
    assert asked == ([] if all(known) else [("x", "y")])
