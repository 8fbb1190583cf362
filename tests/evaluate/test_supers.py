"""`super` in methods that are unfolded, and in methods that are specialised themselves."""

from __future__ import annotations

import pytest

from tests.harness import operations, residual_of, same


class Base:
    def __init__(self, log):
        self.log = log
        log.append("Base")

    def tell(self, what):
        return ("Base", what)

    @classmethod
    def made(cls, what):
        return (cls.__name__, what)

    @staticmethod
    def free(what):
        return ("free", what)

    @property
    def answer(self):
        return 42


class Left(Base):
    def __init__(self, log):
        super().__init__(log)
        log.append("Left")

    def tell(self, what):
        return ("Left", super().tell(what))

    @classmethod
    def made(cls, what):
        return ("Left", super().made(what))

    @property
    def answer(self):
        return super().answer + 1


class Right(Base):
    def tell(self, what):
        return ("Right", super(Right, self).tell(what))

    def borrowed(self, what):
        return super().free(what), super().made(what)


class Both(Left, Right):
    def __init__(self, log):
        super().__init__(log)
        log.append("Both")

    def missing(self):
        return super().nothing


def method(name):
    scope = {}
    exec(f"def f(log):\n    return {name}", globals(), scope)
    return scope["f"]


@pytest.mark.parametrize(
    "expression",
    [
        "Left(log).tell(1)",
        "Both(log).tell(2)",
        "Right(log).tell(3)",
        "Left.made(4)",
        "Both.made(5)",
        "Right(log).borrowed(6)",
        "super(Left, Both(log)).tell(7)",
        "Both(log).answer",
    ],
)
def test_unfolded(expression):
    same(method(expression), lambda log: (log,))


def test_the_chain_of_methods_is_unfolded():
    fn = residual_of(method("Both(log).tell(1)"))[0]
    assert not {"load_super_attr", "load_super_method"} & set(operations(fn))
    assert "call" not in [op.name for b in fn.blocks for op in b.ops if op.arg == ("tell",)]


def test_a_missing_attribute_is_told_as_the_interpreter_does():
    f = method("Both(log).missing()")
    messages = []
    for each in (f, residual_of(f)[1]):
        with pytest.raises(AttributeError) as caught:
            each([])
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_method_that_is_specialised_itself():
    instance = Both([])
    fast = residual_of(Left.tell)[1]
    assert fast(instance, 1) == Left.tell(instance, 1)


def test_an_instance_that_a_closure_captures():
    class Local(Base):
        def tell(self, what):
            def again():
                return self.log

            return super().tell(what), again()

    instance = Local([])
    assert residual_of(Local.tell)[1](instance, 1) == Local.tell(instance, 1)


def test_another_super():
    def f(x):
        class Local(Base):
            def __init__(self):
                pass

            def tell(self, what):
                return super().tell(what)

        return Local().tell(x)

    same(f, lambda log: (1,))
