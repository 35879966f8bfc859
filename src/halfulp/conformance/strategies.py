"""Settings drawn by Hypothesis over the full product of parameters, small enough for exact arithmetic.

Every strategy draws only valid settings (a window always fits), so nothing is rejected. ``settings_of`` turns a
strategy into a reproducible sequence: the same seed, operator and block give the same settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from halfulp.conformance.cases import LAYOUTS, Filling, Setting, derived_seed
from halfulp.conformance.fill import FILLINGS
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    Operator,
    Shape,
    SmoothMaxPool,
)

__all__ = ["STRATEGIES", "settings_of"]

BLOCK: Final = 64
"""Settings that are drawn together."""
FILLINGS_PER_SETTING: Final = 4

Draw = Callable[[st.SearchStrategy[Any]], Any]

_LARGEST_KERNEL = {1: 4, 2: 3, 3: 2}
_EXTRA_CELLS = {1: 6, 2: 3, 3: 2}
_RANKS = st.sampled_from((2, 1, 2, 3))
_TIES = st.sampled_from(("first", "last", "all", "split"))
_NAN = st.sampled_from(("propagate", "propagate", "ignore"))
_RARELY = st.sampled_from((False, False, False, True))
_PADDING_KINDS = st.sampled_from(("none", "symmetric", "symmetric", "symmetric", "pairs", "same", "same_lower", "wide"))
_LAYOUTS = st.sampled_from(("C", *LAYOUTS))
_LABELS = st.lists(
    st.sampled_from(tuple(FILLINGS)), min_size=FILLINGS_PER_SETTING, max_size=FILLINGS_PER_SETTING, unique=True
)
_SEEDS = st.integers(0, 2**32 - 1)


def _per_axis(draw: Draw, ndim: int, low: int, high: int) -> Shape:
    return tuple(draw(st.integers(low, high)) for _ in range(ndim))


def _leading(draw: Draw) -> Shape:
    """Batch and channel axes: none, channels, or both."""
    return draw(st.sampled_from(((1, 2), (2, 1), (1, 1), (2, 2), (2,), (1, 3), ())))  # type: ignore[no-any-return]


def _padding(draw: Draw, kernel: Shape) -> Any:
    """Padding of every kind: none, at most half the window, pairs, modes, and wider than the window."""
    kind = draw(_PADDING_KINDS)
    if kind in ("same", "same_lower"):
        return kind
    if kind == "none":
        return 0
    if kind == "symmetric":
        return tuple(draw(st.integers(0, k // 2)) for k in kernel)
    if kind == "pairs":
        return tuple((draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))) for k in kernel)
    return tuple(draw(st.integers(0, k + 1)) for k in kernel)


def _sizes(draw: Draw, kernel: Shape, dilation: Shape, padding: Any) -> Shape:
    """Spatial sizes that hold the window at least once."""
    ndim = len(kernel)
    sizes = []
    for axis in range(ndim):
        least = dilation[axis] * (kernel[axis] - 1) + 1
        if isinstance(padding, str):
            least = 1
        elif isinstance(padding, tuple):
            pad = padding[axis]
            least -= sum(pad) if isinstance(pad, tuple) else 2 * pad
        sizes.append(max(1, least) + draw(st.integers(0, _EXTRA_CELLS[ndim])))
    return tuple(sizes)


def _window(draw: Draw) -> tuple[dict[str, Any], Shape]:
    """The arguments that all windowed poolings share, and an input shape that fits."""
    ndim = draw(_RANKS)
    kernel = _per_axis(draw, ndim, 1, _LARGEST_KERNEL[ndim])
    stride = draw(st.sampled_from((None, 1, 2))) if draw(st.booleans()) else _per_axis(draw, ndim, 1, 3)
    dilation = _per_axis(draw, ndim, 1, 2) if draw(_RARELY) else (1,) * ndim
    padding = _padding(draw, kernel)
    given_arguments = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "ceil_mode": draw(st.booleans()),
    }
    return given_arguments, _leading(draw) + _sizes(draw, kernel, dilation, padding)


def _setting(draw: Draw, op: Operator, *shapes: Shape | None) -> Setting:
    fillings = tuple(Filling(label, draw(_SEEDS)) for label in draw(_LABELS))
    return Setting(op, shapes, fillings, layout=draw(_LAYOUTS))


@st.composite
def max_pool(draw: Draw) -> Setting:
    """Hard max pooling under every tie and NaN policy."""
    arguments, shape = _window(draw)
    return _setting(draw, MaxPool(**arguments, ties=draw(_TIES), nan=draw(_NAN)), shape)


@st.composite
def avg_pool(draw: Draw) -> Setting:
    """Average pooling with and without counted padding, and with a divisor of its own."""
    arguments, shape = _window(draw)
    divisor = draw(st.sampled_from((None, None, None, 1, 3, 7, -2)))
    return _setting(draw, AvgPool(**arguments, count_include_pad=draw(st.booleans()), divisor_override=divisor), shape)


@st.composite
def smooth_max_pool(draw: Draw) -> Setting:
    """Smooth max pooling, sharp and soft, maximum and minimum."""
    arguments, shape = _window(draw)
    beta = draw(st.sampled_from((1.0, 0.5, 2.0, -1.0, 8.0, 0.1)))
    return _setting(draw, SmoothMaxPool(**arguments, beta=beta), shape)


def _adaptive(draw: Draw) -> tuple[tuple[int | None, ...], Shape]:
    ndim = draw(_RANKS)
    highest = {1: 8, 2: 5, 3: 3}[ndim]
    sizes = _per_axis(draw, ndim, 1, highest)
    outputs = tuple(None if draw(_RARELY) else draw(st.integers(1, highest)) for _ in range(ndim))
    return outputs, _leading(draw) + sizes


@st.composite
def adaptive_avg_pool(draw: Draw) -> Setting:
    """Adaptive means, more bins than cells included."""
    outputs, shape = _adaptive(draw)
    return _setting(draw, AdaptiveAvgPool(outputs), shape)


@st.composite
def adaptive_max_pool(draw: Draw) -> Setting:
    """Adaptive maxima under every policy."""
    outputs, shape = _adaptive(draw)
    return _setting(draw, AdaptiveMaxPool(outputs, ties=draw(_TIES), nan=draw(_NAN)), shape)


def _global(draw: Draw) -> tuple[int, bool, Shape]:
    ndim = draw(_RANKS)
    sizes = _per_axis(draw, ndim, 1, {1: 12, 2: 5, 3: 3}[ndim])
    return ndim, draw(st.booleans()), _leading(draw) + sizes


@st.composite
def global_avg_pool(draw: Draw) -> Setting:
    """Global means."""
    ndim, keepdims, shape = _global(draw)
    return _setting(draw, GlobalAvgPool(ndim, keepdims=keepdims), shape)


@st.composite
def global_max_pool(draw: Draw) -> Setting:
    """Global maxima under every policy."""
    ndim, keepdims, shape = _global(draw)
    return _setting(draw, GlobalMaxPool(ndim, keepdims=keepdims, ties=draw(_TIES), nan=draw(_NAN)), shape)


def _channels(draw: Draw) -> tuple[int, int, int, Shape]:
    """(groups, input channels per group, output channels per group, batch axes)."""
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    return groups, draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.sampled_from(((1,), (2,), ())))


@st.composite
def conv(draw: Draw) -> Setting:
    """Convolution: groups, depthwise, strides, dilations, padding of every kind, with and without bias."""
    ndim = draw(_RANKS)
    kernel = _per_axis(draw, ndim, 1, _LARGEST_KERNEL[ndim])
    stride = _per_axis(draw, ndim, 1, 2)
    dilation = _per_axis(draw, ndim, 1, 2) if draw(_RARELY) else (1,) * ndim
    padding = _padding(draw, kernel)
    groups, inputs, outputs, batch = _channels(draw)
    op = Conv(ndim, stride=stride, padding=padding, dilation=dilation, groups=groups)
    x = (*batch, groups * inputs, *_sizes(draw, kernel, dilation, padding))
    bias = (groups * outputs,) if draw(st.booleans()) else None
    return _setting(draw, op, x, (groups * outputs, inputs, *kernel), bias)


@st.composite
def conv_transpose(draw: Draw) -> Setting:
    """Transposed convolution, with output padding, and padding that leaves at least one output cell."""
    ndim = draw(_RANKS)
    kernel = _per_axis(draw, ndim, 1, _LARGEST_KERNEL[ndim])
    stride = _per_axis(draw, ndim, 1, 2)
    dilation = _per_axis(draw, ndim, 1, 2) if draw(_RARELY) else (1,) * ndim
    sizes = _per_axis(draw, ndim, 1, _EXTRA_CELLS[ndim])
    extra = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    spans = [
        (n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(sizes, stride, dilation, kernel, extra, strict=True)
    ]
    padding = tuple(draw(st.integers(0, min(2, (span - 1) // 2))) for span in spans)
    groups, inputs, outputs, batch = _channels(draw)
    op = ConvTranspose(ndim, stride=stride, padding=padding, output_padding=extra, dilation=dilation, groups=groups)
    bias = (groups * outputs,) if draw(st.booleans()) else None
    return _setting(draw, op, (*batch, groups * inputs, *sizes), (groups * inputs, outputs, *kernel), bias)


STRATEGIES: Final[dict[str, Callable[[], st.SearchStrategy[Setting]]]] = {
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "smooth_max_pool": smooth_max_pool,
    "adaptive_avg_pool": adaptive_avg_pool,
    "adaptive_max_pool": adaptive_max_pool,
    "global_avg_pool": global_avg_pool,
    "global_max_pool": global_max_pool,
    "conv": conv,
    "conv_transpose": conv_transpose,
}
"""Operator -> the strategy of its settings."""


@lru_cache(maxsize=64)  # campaigns walk over all operators before they come back to a block
def settings_of(operator: str, campaign_seed: int, block: int) -> tuple[Setting, ...]:
    """The settings of one block, always the same for the same arguments.

    >>> settings_of("conv", 0, 0) == settings_of.__wrapped__("conv", 0, 0)
    True
    """
    drawn: list[Setting] = []
    attempt = 0
    with _seed_alone():
        while len(drawn) < BLOCK:  # one pass is enough, unless Hypothesis stops early
            _collect(STRATEGIES[operator](), derived_seed(campaign_seed, operator, block, attempt), drawn)
            attempt += 1
    return tuple(drawn[:BLOCK])


@contextmanager
def _seed_alone() -> Iterator[None]:
    """Draw from the seed alone: Hypothesis also tries constants of whatever modules of the user's are loaded."""
    names = ("_get_local_constants", "CONSTANTS_CACHE")
    if not all(hasattr(providers, name) for name in names):  # a version that does not do this
        yield
        return
    saved = {name: getattr(providers, name) for name in names}
    nothing = type(saved["_get_local_constants"]())()
    try:
        providers._get_local_constants = lambda: nothing
        providers.CONSTANTS_CACHE = type(saved["CONSTANTS_CACHE"])(1024)
        yield
    finally:
        for name, value in saved.items():
            setattr(providers, name, value)


def _collect(strategy: st.SearchStrategy[Setting], number: int, drawn: list[Setting]) -> None:
    @seed(number)
    @settings(
        max_examples=BLOCK,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(setting: Setting) -> None:
        drawn.append(setting)

    collect()
