"""From a choice of options to a record with shapes: sizes where kernels go wrong, small enough for exact arithmetic.

One thing is long at a time: the batch, the channels, one spatial axis or one axis of the kernel. Its sizes lie around
the widths of vectors and blocks; everything else is small, so that an exact answer takes milliseconds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from halfulp.conformance.cases import Filling, Setting, derived_seed
from halfulp.conformance.draws import options_of
from halfulp.conformance.fill import LONG_SUMS, TELLING, TROUBLESOME
from halfulp.conformance.pairwise import Choice, choices
from halfulp.records import Declaration, Operator, Shape, named

__all__ = ["BLOCK", "settings_of"]

BLOCK: Final = 48
"""Settings that are drawn together; all ranks divide it."""

_AXES: Final = (15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
_BATCHES: Final = (3, 5, 8, 9, 16, 17, 33, 65, 66)
_CHANNELS: Final = (9, 17, 33, 64, 65, 66, 70, 127, 129)
_KERNELS: Final = (8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
_LEADING: Final = ((1, 2), (2, 1), (3, 2), (1, 3), (2, 2), (4, 1), (2,), ())

Built = tuple[dict[str, Any], tuple[Shape | None, ...], int]
"""Arguments of the record, shapes of the inputs, and the number of terms."""


@dataclass
class Drawing:
    """One choice on its way to a setting. ``long`` is the size of what is long; ``spare`` adds cells elsewhere."""

    chosen: dict[str, Any]
    rank: int
    rng: random.Random
    long: int = 0
    spare: int = 2

    def is_long(self, what: str) -> bool:
        """Whether this is what is long."""
        return bool(self.chosen["long"] == what)

    def batch(self) -> tuple[int, int] | tuple[int] | tuple[()]:
        """Batch and channels of a pooling operator."""
        if self.is_long("batch"):
            return self.long, self.rng.choice((1, 2))
        if self.is_long("channels"):
            return self.rng.choice((1, 2)), self.long
        fits = [lead for lead in _LEADING if len(lead) == 2 or self.chosen["layout"] != "channels_last"]
        return self.rng.choice(fits if self.spare else fits[:1])

    def kernel(self) -> Shape:
        """The window, one axis of it long if that was chosen."""
        largest = {1: 5, 2: 3, 3: 2}[self.rank]
        kind = self.chosen["kernel_size"]
        sizes = [1] * self.rank if kind == "one" else [self.rng.choice((2, min(3, largest)))] * self.rank
        if kind == "mixed":
            sizes = [self.rng.randint(1, largest) for _ in range(self.rank)]
            if len(set(sizes)) == 1 and self.rank > 1:
                sizes[self.rng.randrange(self.rank)] = sizes[0] % largest + 1
        if self.is_long("kernel"):
            sizes[self.rng.randrange(self.rank)] = self.long
        return tuple(sizes)

    def steps(self, option: str) -> Shape:
        """Strides or dilations; mixed ones differ from axis to axis."""
        kind = self.chosen[option]
        if kind != "mixed":
            return (kind,) * self.rank
        if self.rank == 1:
            return (3,)
        steps = [self.rng.randint(1, 3 if option == "stride" or self.rank == 2 else 2) for _ in range(self.rank)]
        if steps[0] == steps[-1]:  # the order of the axes must matter
            steps[0] = steps[-1] % 3 + 1 if option == "stride" else 3 - min(steps[-1], 2)
        return tuple(steps)

    def padding(self, kernel: Shape, dilation: Shape) -> Any:
        """Padding of the chosen kind, at least one cell of it unless there is none."""
        kind = self.chosen["padding"]
        if kind in ("same", "same_lower"):
            return kind
        if kind == "none":
            return 0
        half = [max(1, min(k // 2, 4)) for k in kernel]
        if kind == "symmetric":
            return tuple(self.rng.randint(1, h) for h in half)
        if kind == "wide":
            return tuple(min(k, 6) + self.rng.randint(0, 1) for k in kernel)
        pairs = [(self.rng.randint(0, h), self.rng.randint(0, h)) for h in half]
        axis = self.rng.randrange(self.rank)
        pairs[axis] = self.rng.choice(((0, 1), (1, 0), (2, 1), (0, 2)))
        return tuple(pairs)

    def sizes(self, least: list[int]) -> Shape:
        """Spatial sizes that hold the window at least once."""
        low, extra = (0, 0) if not self.spare else (1, {1: 6, 2: 3, 3: 2}[self.rank])
        if self.chosen.get("stride") == "mixed" and self.rng.random() < 0.5:
            low = extra = 3  # strides of 2 and 3 then give as many windows in either order
        return tuple(
            max(self.long, max(1, n)) if self.is_long(f"axis {i}") else max(1, n) + self.rng.randint(low, extra)
            for i, n in enumerate(least)
        )


def _long_sizes(what: str) -> tuple[int, ...]:
    if what.startswith("axis"):
        return _AXES
    return {"batch": _BATCHES, "kernel": _KERNELS, "nothing": (0,)}.get(what, _CHANNELS)


def _needed(kernel: Shape, dilation: Shape, padding: Any) -> list[int]:
    """The least spatial sizes that hold a window."""
    if isinstance(padding, str):
        return [1] * len(kernel)
    pads = padding if isinstance(padding, tuple) else (0,) * len(kernel)
    sums = [sum(p) if isinstance(p, tuple) else 2 * p for p in pads]
    return [d * (k - 1) + 1 - p for k, d, p in zip(kernel, dilation, sums, strict=True)]


def _window(draws: Declaration, d: Drawing) -> Built:
    kernel, dilation = d.kernel(), d.steps("dilation")
    stride = None if d.chosen["stride"] == "kernel" else d.steps("stride")
    padding = d.padding(kernel, dilation)
    arguments = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    arguments |= {name: d.chosen[name] for name in ("ceil_mode", *draws.draw.choices)}
    shape = d.batch() + d.sizes(_needed(kernel, dilation, padding))
    windows = math.prod(draws.record(**arguments).output_shape(shape))
    return arguments, (shape,), windows * math.prod(kernel) + math.prod(shape)


def _adaptive(draws: Declaration, d: Drawing) -> Built:
    sizes = d.sizes([2] * d.rank)
    kinds = [d.chosen["output_size"]] * d.rank
    if kinds[0] == "mixed":
        kinds = [d.rng.choice(("fewer", "more", "one", "kept")) for _ in range(d.rank)]
    outputs = tuple(
        {"fewer": d.rng.randint(1, max(1, min(n - 1, 9))), "more": n + d.rng.randint(1, 3), "one": 1, "kept": None}[
            kind
        ]
        for n, kind in zip(sizes, kinds, strict=True)
    )
    arguments = {"output_size": outputs} | {name: d.chosen[name] for name in draws.draw.choices}
    shape = d.batch() + sizes
    out = draws.record(**arguments).output_shape(shape)
    return arguments, (shape,), 2 * math.prod(shape) + math.prod(out)


def _global(draws: Declaration, d: Drawing) -> Built:
    arguments = {"ndim": d.rank} | {name: d.chosen[name] for name in ("keepdims", *draws.draw.choices)}
    shape = d.batch() + d.sizes([1] * d.rank)
    return arguments, (shape,), math.prod(shape)


def _channels(d: Drawing) -> tuple[int, int, int, Shape]:
    """(groups, input channels per group, output channels per group, batch axes)."""
    groups = d.chosen["groups"]
    inputs, outputs = d.rng.choice((1, 2, 2, 3)), d.rng.choice((1, 2, 2, 3))
    if groups == "depthwise":
        groups, inputs, outputs = d.rng.choice((2, 3, 4)), 1, d.rng.choice((1, 1, 2))
        if d.is_long("inputs") or d.is_long("outputs"):
            groups = d.long
    elif d.is_long("inputs"):
        inputs = d.long
    elif d.is_long("outputs"):
        outputs = d.long
    batch = (d.long,) if d.is_long("batch") else d.rng.choice(((1,), (2,), (3,), ()))
    if d.chosen["layout"] == "channels_last" and not batch:
        batch = (2,)
    return groups, inputs, outputs, batch


def _conv(draws: Declaration, d: Drawing) -> Built:
    kernel, dilation, stride = d.kernel(), d.steps("dilation"), d.steps("stride")
    padding = d.padding(kernel, dilation)
    groups, inputs, outputs, batch = _channels(d)
    arguments = {"ndim": d.rank, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x = (*batch, groups * inputs, *d.sizes(_needed(kernel, dilation, padding)))
    weight = (groups * outputs, inputs, *kernel)
    bias = (groups * outputs,) if d.chosen["bias"] else None
    shapes: Any = (x, weight, bias)
    windows = math.prod(draws.record(**arguments).output_shape(*shapes))
    return arguments, shapes, windows * inputs * math.prod(kernel) + math.prod(x) + math.prod(weight)


def _conv_transpose(draws: Declaration, d: Drawing) -> Built:
    kernel, dilation, stride = d.kernel(), d.steps("dilation"), d.steps("stride")
    groups, inputs, outputs, batch = _channels(d)
    sizes = d.sizes([1] * d.rank)
    most = [max(s, e) - 1 for s, e in zip(stride, dilation, strict=True)]
    extra = tuple(d.rng.randint(min(1, m), m) if d.chosen["output_padding"] == "mixed" else 0 for m in most)
    spans = [(n - 1) * s + e * (k - 1) + 1 for n, s, e, k in zip(sizes, stride, dilation, kernel, strict=True)]
    padding: Any = 0
    if d.chosen["padding"] == "symmetric":
        padding = tuple(d.rng.randint(min(1, (n - 1) // 2), min(2, (n - 1) // 2)) for n in spans)
    elif d.chosen["padding"] == "asymmetric":
        padding = tuple(d.rng.choice(((0, 1), (1, 0), (0, 2), (2, 1))) if n > 3 else (0, n > 1) for n in spans)
        padding = tuple((int(before), int(after)) for before, after in padding)
    arguments = {
        "ndim": d.rank,
        "stride": stride,
        "padding": padding,
        "output_padding": extra,
        "dilation": dilation,
        "groups": groups,
    }
    x, weight = (*batch, groups * inputs, *sizes), (groups * inputs, outputs, *kernel)
    bias = (groups * outputs,) if d.chosen["bias"] else None
    terms = math.prod(x) * outputs * math.prod(kernel)
    return arguments, (x, weight, bias), 2 * terms + math.prod(weight)


_BUILDERS: Final[dict[str, Callable[[Declaration, Drawing], Built]]] = {
    "window": _window,
    "adaptive": _adaptive,
    "global": _global,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
}


def _builder(draws: Declaration) -> Callable[[Declaration, Drawing], Built]:
    return _own if callable(draws.draw.family) else _BUILDERS[draws.draw.family]


def _own(draws: Declaration, d: Drawing) -> Built:
    """A record and shapes that the declaration itself draws."""
    assert callable(draws.draw.family)
    op, shapes = draws.draw.family(d.rng.choice)
    arguments = {f.name: getattr(op, f.name) for f in fields(op)}
    return arguments, shapes, sum(math.prod(shape) for shape in shapes if shape is not None)


def small(declaration: Declaration, rng: random.Random) -> tuple[Operator, tuple[Shape | None, ...]]:
    """A record and small shapes for it, chosen at random: for laws that are checked in exact arithmetic."""
    rank = rng.choice((1, 1, 2))
    chosen = {name: rng.choice(values) for name, values in options_of(declaration.name, rank).items()}
    drawing = Drawing(chosen | {"long": "nothing", "layout": "C"}, rank, rng, 0, rng.choice((0, 2)))
    arguments, shapes, _ = _builder(declaration)(declaration, drawing)
    return declaration.record(**arguments), shapes


def _built(operator: str, rank: int, chosen: dict[str, Any], rng: random.Random, sizes: Iterator[int]) -> Built:
    """The first attempt whose exact answer is affordable, or else the cheapest one. Attempts get smaller."""
    draws = named(operator)
    wanted = next(sizes)
    known = _long_sizes(chosen["long"])
    smaller = [n for n in reversed(known) if n < wanted]
    attempts = [(wanted, 2), *[(wanted, 0)] * 5, *((n, 0) for n in smaller)]
    best: Built | None = None
    for long, spare in attempts:
        built = _builder(draws)(draws, Drawing(chosen, rank, rng, long, spare))
        if best is None or built[2] < best[2]:
            best = built
        if built[2] <= draws.draw.terms:
            return built
    assert best is not None
    return best


def _deck(rng: random.Random, cards: tuple[Any, ...]) -> Iterator[Any]:
    """The cards in random order, again and again: none comes twice before all came once."""
    while True:
        yield from rng.sample(cards, len(cards))


@lru_cache(maxsize=128)  # campaigns walk over all operators before they come back to a block
def settings_of(operator: str, campaign_seed: int, dtype: str, block: int) -> tuple[Setting, ...]:
    """The settings of one block for one element type, always the same for the same arguments.

    >>> settings_of("conv", 0, "float32", 0) == settings_of.__wrapped__("conv", 0, "float32", 0)
    True
    """
    number = derived_seed(campaign_seed, operator, dtype, "drawn")
    rng = random.Random(derived_seed(number, block))
    decks: dict[str, Iterator[int]] = {}
    telling, troublesome, long_sums = (_deck(rng, labels) for labels in (TELLING, TROUBLESOME, LONG_SUMS))
    settings = []
    for place, (rank, choice) in enumerate(_choices(operator, number, block)):
        chosen = dict(choice)
        what = chosen["long"]
        sizes = decks.setdefault(what, _deck(rng, _long_sizes(what)))
        arguments, shapes, _ = _built(operator, rank, chosen, rng, sizes)
        if what in ("kernel", "inputs"):
            label = next(long_sums)
        else:
            label = next(troublesome) if place // 3 % 3 == 2 else next(telling)  # ranks take turns, too
        filling = Filling(label, rng.randrange(2**32))
        op = named(operator).record(**arguments)
        settings.append(Setting(op, shapes, (filling,), layout=chosen["layout"], choice=choice, rank=rank))
    return tuple(settings)


@lru_cache(maxsize=128)
def _stream(operator: str, number: int, blocks: int) -> tuple[tuple[int, Choice], ...]:
    stream = choices(operator, number)
    return tuple(next(stream) for _ in range(blocks * BLOCK))


def _choices(operator: str, number: int, block: int) -> tuple[tuple[int, Choice], ...]:
    """The choices of one block. Blocks come four at a time, so that later ones go on with the missing pairs."""
    group = block // 4
    seed = number if group == 0 else derived_seed(number, group)
    return _stream(operator, seed, 4)[block % 4 * BLOCK : (block % 4 + 1) * BLOCK]
