"""What a test of an object's exact type tells, and functions that are unfolded behind such a test."""

from __future__ import annotations

import pytest

import bcspec
from bcspec.knowledge import Knowledge


class Plain:
    """Keeps its instances, as the tests declare."""


class Derived(Plain):
    pass


def describe(value):
    if type(value) is int:
        return "int" if isinstance(value, int) else "never"
    return "other"


def describe_again(value, other):
    known = type(value) is int
    value = other
    if known:
        return isinstance(value, int)
    return None


def kind_of(value, names):
    if not isinstance(value, Plain):
        return names[0]
    return names[1] if type(value) is Plain else names[2]


def kinds(values):
    return [kind_of(values[0], ("none", "plain", "derived"))]


def residual(function, **options):
    fast = bcspec.partial_eval(function, strict=True, **options)
    return fast, bcspec.explain(fast)


def test_a_type_test_decides_later_ones():
    fast, text = residual(describe)
    assert "never" not in text
    assert [fast(1), fast(True), fast("")] == ["int", "other", "other"]


def test_a_variable_that_is_bound_anew_is_not_meant():
    fast, _ = residual(describe_again)
    assert fast(1, "x") is False
    assert fast(1, 2) is True
    assert fast("x", 2) is None


@pytest.mark.parametrize("keeps", [False, True])
def test_instances_that_may_get_another_class_are_not_known(keeps):
    knowledge = Knowledge()
    if keeps:
        knowledge.keeps_instances[Plain] = "declared here"

    def changing(value, change):
        if type(value) is Plain:
            change(value)
            return isinstance(value, Derived)
        return None

    def change(value):
        value.__class__ = Derived

    fast, text = residual(changing, knowledge=knowledge)
    assert ("isinstance(" in text) is not keeps
    if not keeps:
        assert fast(Plain(), change) is True


def test_an_expected_class_is_unfolded_and_others_stay_calls():
    knowledge = Knowledge()
    knowledge.expect(kind_of, Plain, "declared here")
    fast, text = residual(kinds, knowledge=knowledge)
    assert "isinstance(" not in text
    assert "kind_of(" in text
    for value in (Plain(), Derived(), 1):
        assert fast([value]) == kinds([value])
