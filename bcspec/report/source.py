"""Residual IR as pseudo-Python: nested where control allows it, `goto` where paths meet."""

from __future__ import annotations

from ..ir import OPS, Block, Function, Op, Value
from .notation import EXPRESSIONS, STATEMENTS, UNSEEN, bare, is_simple, mentions, negated, variable

#: Terminators whose first edge is taken again and again, the second at the end.
LOOPS = {
    "for_iter": "for {result} in {0}:",
    "send": "for {result} in sending({0}, {1}):",
}

#: A block, and the texts of the operands that it gets.
Way = tuple[Block, list[str]]


class _Writer:
    """Turns blocks into lines.

    A value is the text of the expression that makes it; one that several operations mention, or that
    crosses to another block, gets a name of its own.
    """

    def __init__(self, fn: Function) -> None:
        self.blocks = usual_path(fn)
        self.labels = {block: f"L{index}" for index, block in enumerate(self.blocks)}
        self.ways_in = dict.fromkeys(self.blocks, 0)
        self.ways_in[fn.blocks[0]] = 1
        for block in self.blocks:
            for edge in block.edges:
                self.ways_in[edge.target] += 1
        self.texts: dict[Value, str] = {}
        self.lines: list[str] = []
        self.fresh = 0
        #: The names that operands get where paths meet.
        self.met: dict[Value, str] = {
            value: self.new_name()
            for block in self.blocks
            if self.ways_in[block] > 1
            for value in block.params
        }

    def new_name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def write(self) -> list[str]:
        for block in self.blocks:
            if block is self.blocks[0] or self.ways_in[block] > 1:
                self.run(block, 0)
        return self.lines

    def run(self, block: Block | None, depth: int) -> None:
        """A block, and those that only it leads to."""
        while block is not None:
            block = self.block(block, depth)

    def block(self, block: Block, depth: int) -> Block | None:
        """One block; returns the one that follows at the same depth."""
        if self.ways_in[block] > 1:
            self.lines.append(f"  {self.labels[block]}:")
            self.texts.update((value, self.met[value]) for value in block.params)
        for op in block.ops:
            self.operation(op, depth)
        assert block.term is not None
        self.keep(block.term, depth)
        operands = [self.texts[value] for value in block.term.operands]
        results = [self.new_name() for _ in block.term.results]
        self.texts.update(zip(block.term.results, results, strict=True))
        ways = [(edge.target, [self.texts[value] for value in edge.args]) for edge in block.edges]
        for value in (
            *block.term.operands,
            *(value for edge in block.edges for value in edge.args),
        ):
            self.texts.pop(value, None)
        if block.term.name == "branch":
            return self.branch(block.term, operands[0], ways, depth)
        if block.term.name in LOOPS:
            inner, after = ways
            self.line(depth, LOOPS[block.term.name].format(*operands, result=results[0]))
            self.run(self.follow(*inner, depth + 1), depth + 1)
            return self.follow(*after, depth)
        if block.term.name == "jump":
            return self.follow(*ways[0], depth)
        if block.term.name == "return_value":
            self.line(depth, f"return {bare(operands[0])}")
        else:
            self.line(depth, f"{block.term.name.split('_')[0]} {', '.join(map(bare, operands))}")
        return None

    def branch(self, term: Op, operand: str, ways: list[Way], depth: int) -> Block | None:
        test = {
            "true": bare(operand),
            "false": negated(bare(operand)),
            "none": f"{operand} is None",
            "not_none": f"{operand} is not None",
        }[term.arg]
        nested, following = ways
        short = [self.is_short(target) for target, _ in ways]
        if (short == [False, True] and not leads_to(*ways)) or leads_to(following, nested):
            nested, following, test = following, nested, negated(test)
        self.line(depth, f"if {test}:")
        self.run(self.follow(*nested, depth + 1), depth + 1)
        return self.follow(*following, depth)

    def is_short(self, block: Block) -> bool:
        """Whether what stands here of a block is one line, or the end."""
        return self.ways_in[block] > 1 or not block.edges

    def follow(self, block: Block, texts: list[str], depth: int) -> Block | None:
        """Pass operands on; returns the block if only this leads to it, or says where it stands."""
        if self.ways_in[block] == 1:
            self.texts.update(zip(block.params, texts, strict=True))
            return block
        for text, param in zip(texts, block.params, strict=True):
            if text != self.met[param]:
                self.line(depth, f"{self.met[param]} = {bare(text) or None}")
        self.line(depth, f"goto {self.labels[block]}")
        return None

    def operation(self, op: Op, depth: int) -> None:
        if op.name in UNSEEN:
            return
        self.keep(op, depth)
        operands = [self.texts[value] for value in op.operands]
        if op.name == "copy":
            self.texts[op.results[0]] = operands[0]
        elif op.name in ("delete", "delete_check"):
            # A variable that was loaded to be used next is moved, not deleted.
            name = variable(op.arg)
            if not any(mentions(text, name) for text in self.texts.values()):
                self.line(depth, f"del {name}")
        elif op.name == "drop":
            if operands[0].endswith(")") and not is_simple(operands[0]):
                self.line(depth, bare(operands[0]))
        elif op.name == "load_method":
            self.texts.update(zip(op.results, (f".{op.arg}", operands[0]), strict=True))
        elif op.name == "unpack_sequence":
            parts = enumerate(reversed(op.results))
            self.texts.update({value: f"{operands[0]}[{index}]" for index, value in parts})
        elif op.name in EXPRESSIONS:
            self.texts[op.results[0]] = EXPRESSIONS[op.name](op, operands)
        elif op.name in STATEMENTS:
            self.line(depth, STATEMENTS[op.name](op, operands))
        else:
            self.other(op, operands, depth)
        for value in op.operands[op.keeps :]:
            self.texts.pop(value, None)

    def keep(self, op: Op, depth: int) -> None:
        """Name what an operation looks at and leaves, since its text would stand there twice, and what
        was evaluated before a statement but is used after it."""
        several = op.name == "unpack_sequence"
        named = set(op.operands if several else op.operands[: op.keeps])
        if op.name in STATEMENTS:
            named |= self.texts.keys() - set(op.operands)
        for value in [value for value in self.texts if value in named]:
            text = self.texts[value]
            if not is_simple(text):
                self.texts[value] = self.new_name()
                self.line(depth, f"{self.texts[value]} = {bare(text)}")

    def other(self, op: Op, operands: list[str], depth: int) -> None:
        """An operation that has no better notation."""
        argument = [str(op.arg)] if op.arg is not None and OPS[op.name].pops != 0 else []
        call = f"{op.name}({', '.join(map(bare, [*operands, *argument]))})"
        if len(op.results) == 1:
            self.texts[op.results[0]] = call
            return
        names = [self.new_name() for _ in op.results]
        self.texts.update(zip(op.results, names, strict=True))
        self.line(depth, f"{', '.join(names)} = {call}" if names else call)


def leads_to(way: Way, other: Way) -> bool:
    """Whether one side of a branch is a single block after which the other follows."""
    return [edge.target for edge in way[0].edges] == [other[0]]


def usual_path(fn: Function) -> list[Block]:
    """Blocks that are reached without an exception, in their order."""
    found: set[Block] = set()
    work = [fn.blocks[0]]
    while work:
        block = work.pop()
        if block not in found:
            found.add(block)
            work += [edge.target for edge in block.edges]
    return [block for block in fn.blocks if block in found]


def residual_source(fn: Function) -> str:
    """Residual IR as pseudo-Python: the usual path, exception handlers left out.

    Args:
        fn: residual IR.
    """
    lines = tidy(_Writer(fn).write())
    return f"def {fn.name}({', '.join(map(variable, fn.arg_names))}):\n" + "\n".join(lines) + "\n"


def tidy(lines: list[str]) -> list[str]:
    """Leave out jumps to the next line, and labels that nothing names."""
    kept: list[str] = []
    for line in reversed(lines):
        words = line.split()
        target = f"{words[-1]}:" if words[0] == "goto" else None
        if target is None or not kept or kept[-1].strip() != target:
            kept.append(line)
    kept.reverse()
    named = {line.split()[-1] for line in kept if line.split()[0] == "goto"}
    return [line for line in kept if not is_label(line) or line.strip()[:-1] in named]


def is_label(line: str) -> bool:
    return line.startswith("  L") and line.endswith(":")
