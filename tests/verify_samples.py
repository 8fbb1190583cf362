"""Functions without arguments that together use every kind of instruction the verifier judges."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


class Swallow:
    """A context manager that may swallow the exception."""

    def __init__(self, swallow: bool) -> None:
        self.swallow = swallow

    def __enter__(self) -> Swallow:
        return self

    def __exit__(self, *exc: object) -> bool:
        return self.swallow

    async def __aenter__(self) -> Swallow:
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc: object) -> bool:
        return self.swallow


def arithmetic() -> Any:
    a, b = 7, 3
    total = 0
    for op in (a + b, a - b, a * b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b):
        total += op
        total -= 1
    return -total, +total, ~total, not total, a < b <= 9, a is b, a is not b, a in (1, 2)


def calls() -> Any:
    def f(a: int, /, b: int = 2, *args: int, c: int = 3, **kw: int) -> tuple[Any, ...]:
        return a, b, args, c, kw

    more, options = [4, 5], {"x": 1}
    text = "a,b".split(",")
    return (
        f(1),
        f(1, 2, 3, c=4, d=5),
        f(*more),
        f(*more, *more, c=1, **options),
        f(0, **options, **{"y": 2}),
        text,
        ",".join(text),
        len(text),
        isinstance(text, list),
        str(5),
    )


def containers() -> Any:
    items = [1, *range(3), *"ab"]
    pairs = {"a": 1, "b": items, **{"c": 3}}
    unique = {1, 2, *items}
    first, *middle, last = items
    (x, y), z = (1, 2), 3
    items.append(5)
    items[1:3] = [9]
    items[0], items[-1] = items[-1], items[0]
    del items[0]
    return items[::2], pairs, sorted(map(str, unique)), first, middle, last, x, y, z, (*items, 1)


def comprehensions() -> Any:
    n = 4
    a = [i * n for i in range(n) if i % 2]
    b = {i: str(i) for i in a}
    c = {i + n for i in a}
    d = tuple(i + j for i in a for j in range(i))
    return a, b, c, d, sum(i for i in a), any(i > n for i in a)


def strings() -> Any:
    value, width = 3.14159, 10
    return f"{value:{width}.2f}|{value!r}|{value!s:>8}|{'x'}", f"{value}{width}"


def closures() -> Any:
    count = 0

    def bump(by: int = 1) -> int:
        nonlocal count
        count += by
        return count

    def outer(depth: int) -> Any:
        def inner() -> int:
            return depth + count

        return inner

    bump()
    bump(5)
    return count, outer(3)()


def unbound() -> Any:
    if closures() is None:
        late = 1

    def read() -> int:
        return late

    results = []
    for action in (read, lambda: late):
        try:
            action()
        except NameError as error:
            results.append(str(error))
    try:
        del missing  # noqa: F821
    except UnboundLocalError as error:
        results.append(str(error))
        missing = 1
    return results, missing


def classes() -> Any:
    base_value = 3

    class Base:
        attribute: int = base_value
        other = attribute + 1

        def __init__(self, x: int) -> None:
            self.x = x

        def get(self) -> int:
            return self.x

    class Derived(Base):
        def get(self) -> int:
            return super().get() + 1

    thing = Derived(4)
    thing.x += 1
    del thing.x
    thing.x = 5
    return thing.get(), Base.__annotations__, Derived.other


def exceptions() -> Any:
    seen = []

    def risky(n: int) -> int:
        if n == 0:
            raise ValueError("zero")
        if n == 1:
            raise KeyError("one") from TypeError("cause")
        if n == 2:
            assert n == 3, "two"
        return n

    for n in range(5):
        try:
            seen.append(risky(n))
        except ValueError as error:
            seen.append(str(error))
            continue
        except (KeyError, IndexError) as error:
            seen.append(repr(error.__cause__))
        except AssertionError:
            try:
                raise
            except AssertionError as again:
                seen.append(str(again))
        else:
            seen.append("fine")
        finally:
            seen.append(n)
    return seen


def early_exits() -> Any:
    def pick(n: int) -> int:
        for i in range(3):
            try:
                with Swallow(True) as manager:
                    if n == 0:
                        return i
                    if n == 1:
                        break
                    if n == 2:
                        raise ValueError
                    if manager is None:
                        continue
            finally:
                if n == 3:
                    return -i
        else:
            return 7
        return 8

    return [pick(n) for n in range(5)]


def groups() -> Any:
    seen = []
    for members in ([ValueError(1)], [KeyError(2), ValueError(3)], [OSError(4), ValueError(5)]):
        try:
            try:
                raise ExceptionGroup("some", members)
            except* ValueError as group:
                seen.append(len(group.exceptions))
            except* KeyError:
                seen.append("key")
        except ExceptionGroup as rest:
            seen.append(str(rest))
    return seen


def managers() -> Any:
    seen = []
    with Swallow(True), Swallow(False):
        seen.append(1)
        raise ValueError
    with contextlib.suppress(KeyError), contextlib.nullcontext(5) as five:
        seen.append(five)
        {}[1]
    with contextlib.suppress(ValueError):
        with Swallow(False):
            raise ValueError(1)
    return seen


def generators() -> Any:
    def inner(n: int) -> Any:
        got = yield n
        for i in range(n):
            yield i, got
        return n * 2

    def outer() -> Any:
        try:
            result = yield from inner(2)
            yield result
        except ValueError:
            yield "thrown"
        finally:
            yield "end"

    first = list(outer())
    second = outer()
    start = next(second)
    sent = second.send("hello")
    thrown = second.throw(ValueError())
    third = outer()
    next(third)
    with contextlib.suppress(RuntimeError):
        third.close()
    return first, start, sent, thrown, list(second)


def coroutines() -> Any:
    async def ticker(n: int) -> Any:
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def main() -> Any:
        seen = []
        async with Swallow(True) as manager:
            async for i in ticker(3):
                seen.append(i)
            seen += [i async for i in ticker(2) if manager]
            seen.append({i: await asyncio.sleep(0, i) async for i in ticker(2)})
            raise ValueError
        async with Swallow(False):
            return seen

    return drive(main())


def drive(coroutine: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        for _ in range(100):
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    return "never finished"


def matching() -> Any:
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x: int, y: int) -> None:
            self.x, self.y = x, y

    def kind(subject: Any) -> Any:
        match subject:
            case 0 | 1:
                return "small"
            case [a, b, *rest] if rest:
                return a, b, rest
            case {"k": v, **others}:
                return v, others
            case Point(x=0, y=y):
                return y
            case Point(x, y):
                return x, y
            case str() as s:
                return s
            case None:
                return "none"
            case _:
                return "other"

    subjects = (0, [1, 2, 3], [1], {"k": 1, "z": 2}, Point(0, 4), Point(5, 6), "s", None, 9)
    return [kind(subject) for subject in subjects]


def loops() -> Any:
    found = []
    n = 10
    while n:
        n -= 1
        if n == 7:
            continue
        if n == 2:
            break
        found.append(n and n + 1 or None)
    else:
        found.append("else")
    value = None
    while value is None:
        value = 1
    return found, value if value is not None else 0, [] or {} or 5


def imports() -> Any:
    import os.path as path
    from string import ascii_letters, digits

    global _written
    _written = 1
    result = path.join("a", "b"), ascii_letters[:3], digits, _written
    del _written
    return result


SAMPLES = (
    arithmetic,
    calls,
    containers,
    comprehensions,
    strings,
    closures,
    unbound,
    classes,
    exceptions,
    early_exits,
    groups,
    managers,
    generators,
    coroutines,
    matching,
    loops,
    imports,
)
