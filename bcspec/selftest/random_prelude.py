"""What random programs start from: classes and functions, each included where it is mentioned.

`log` and `died` are given by whoever runs the program: the first records an effect, the second the
death of an object; `tick` ends programs that run for too long.
"""

from __future__ import annotations

import re

#: Name -> source.  A piece may mention others.
PIECES: dict[str, str] = {
    "Boom": """
class Boom(Exception):
    pass
""",
    "Fault": """
class Fault(Boom):
    def __init__(self, *args):
        super().__init__(*args)
        self.size = len(args)
""",
    "Obj": """
class Obj:
    def __init__(self, name, value=0):
        self.name, self.value = name, value
        log("new", name)
    def __del__(self):
        died(self.name)
    @property
    def label(self):
        log("label", self.name)
        return self.name
    def poke(self, by=1):
        self.value = self.value + by
        return self.value
""",
    "Plain": """
class Plain:
    kind = "plain"
    def __init__(self, x, y=0):
        self.x = x
        self.y = y
    def total(self):
        return self.x + self.y
    @property
    def both(self):
        return (self.x, self.y)
    @both.setter
    def both(self, pair):
        self.x, self.y = pair
    @classmethod
    def of(cls, x):
        return cls(x, y=1)
    @staticmethod
    def less(a, b=1):
        return a < b
    def __call__(self, z):
        return self.x * z
""",
    "Sub": """
class Sub(Plain):
    kind = "sub"
    def __init__(self, x, y=2):
        super().__init__(x, y)
        self.z = x
    def total(self):
        return super().total() + self.z
""",
    "Slotted": """
class Slotted:
    __slots__ = ("x", "y")
    def __init__(self, x):
        self.x = x
    def total(self):
        return self.x
""",
    "Loud": """
class Loud:
    def __init__(self, x):
        self.x = x
    def __bool__(self):
        log("bool")
        return bool(self.x)
    def __eq__(self, other):
        log("eq")
        return self.x == getattr(other, "x", other)
    def __getattr__(self, name):
        log("getattr", name)
        if name == "missing":
            raise AttributeError(name)
        return 1
    def __getitem__(self, index):
        log("getitem")
        if index > 2:
            raise IndexError(index)
        return index
    def __len__(self):
        log("len")
        return 3
""",
    "Manager": """
class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        log("enter", self.name)
        return self
    def __exit__(self, kind, error, trace):
        log("exit", self.name, kind)
        return self.swallow
""",
    "Holder": """
class Holder:
    def __init__(self, item):
        self.item = item
    def __enter__(self):
        return self.item
    def __exit__(self, *details):
        log("release", details[0])
        self.item = None
""",
    "scope": """
@contextlib.contextmanager
def scope(name):
    log("open", name)
    try:
        yield name
    finally:
        log("close", name)
""",
    "tolerant": """
@contextlib.contextmanager
def tolerant(name):
    found = Obj(name)
    try:
        yield found
    except Boom as error:
        log("tolerated", error.args)
""",
    "careful": """
def careful(items, limit=3):
    try:
        for item in items:
            log("got", (yield item))
    except Boom as error:
        log("careful", error.args)
        yield limit
    finally:
        log("done")
""",
    "Point": """
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
    @property
    def norm(self):
        return self.x * self.x + self.y
""",
    "Pair": """
class Pair(typing.NamedTuple):
    x: int
    y: int = 3
""",
    "Color": """
class Color(enum.Enum):
    RED = 1
    BLUE = 2
""",
    "upto": """
def upto(n):
    i = 0
    while i < n:
        yield i
        i = i + 1
""",
    "noisy": """
def noisy(items):
    for item in items:
        log("item", item)
        yield item
""",
    "wrapped": """
def wrap(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        log("call")
        return function(*args, **kwargs)
    return wrapper
@wrap
def wrapped(a, b=2):
    return a - b
""",
    "fact": """
def fact(n):
    return 1 if n < 1 else n * fact(n - 1)
""",
    "fail": """
def fail(kind, *args):
    raise kind(*args)
""",
    "add": """
def add(a, b):
    return a + b
""",
}

_IMPORTS = ("contextlib", "dataclasses", "enum", "functools", "typing")


def mentions(name: str, text: str) -> bool:
    """Whether `text` has `name` as a word."""
    return re.search(rf"\b{name}\b", text) is not None


def prelude_for(text: str) -> str:
    """The pieces that `text` mentions, with those that they mention, and the imports they need."""
    wanted: dict[str, str] = {}
    work = [text]
    while work:
        current = work.pop()
        for name, source in PIECES.items():
            if name not in wanted and mentions(name, current):
                wanted[name] = source
                work.append(source)
    pieces = "".join(source for name, source in PIECES.items() if name in wanted)
    imports = "".join(f"import {n}\n" for n in _IMPORTS if mentions(n, pieces + text))
    return imports + pieces
