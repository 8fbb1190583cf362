"""Functions at the top of a module, as workers of a pool get them: by name."""

import bcspec


def helper(x):
    return x + 1


def generic(x, *, times=2):
    for _ in range(2):
        x = helper(x) * times
    return x


specialised = bcspec.partial_eval(generic, strict=True)
specialised.__name__ = specialised.__qualname__ = "specialised"


@bcspec.specialize(after=1)
def make(n):
    def wrapper(x):
        return helper(x) * n

    return wrapper
