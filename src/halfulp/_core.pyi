"""The compiled core of halfulp."""

from collections.abc import Sequence
from typing import Any


def get_num_threads() -> int:
    """The number of threads that kernels use."""

def set_num_threads(count: int) -> None:
    """Set the number of threads; 0 leaves it to OpenMP."""

def available_isas() -> list[str]:
    """The instruction sets of this processor that kernels are compiled for."""

def get_isa() -> str:
    """The instruction set in use."""

def set_isa(name: str) -> None:
    """Force an instruction set, as HALFULP_ISA does."""

def engine_counts() -> dict[str, int]:
    """
    How many units of work each engine has done since the last reset, by its name.
    """

def reset_engine_counts() -> None:
    """Set the counters of all engines to zero."""

def get_kept_memory() -> int:
    """Bytes of former outputs and scratch that are kept for new ones."""

def set_kept_memory_limit(bytes: int) -> None:
    """Keep at most this many bytes of former outputs; 0 keeps none."""

def conv_gather(name: str, axes: Sequence[Sequence[int]], groups: int, transposed: bool, planes: Sequence[object], filters: Sequence[object], bias: object | None, output_shape: Sequence[int], fast: bool, out: object | None = None) -> object: ...

def conv_weight(name: str, axes: Sequence[Sequence[int]], groups: int, inputs: object, outputs: object, like: object, fast: bool) -> object: ...

def conv_channel_sums(name: str, ndim: int, array: object) -> object: ...

def xla_targets() -> dict[str, object]:
    """Name -> capsule of every function that XLA can call."""

def set_xla_host(function: object) -> None:
    """Set the function that the target halfulp_host calls."""

class Windows:
    """Sliding windows, as a record has them."""

    def __init__(self, name: str, kernel: Sequence[int], stride: Sequence[int], before: Sequence[int], after: Sequence[int], padding: str, dilation: Sequence[int], ceil_mode: bool) -> None: ...

class MaxPullback:
    """From an output cotangent to a tuple of input cotangents."""

    def __call__(self, cotangent: object) -> tuple[Any, ...]: ...

    @property
    def nbytes(self) -> int:
        """The bytes that the pullback keeps about the winners."""

class MaxOperator:
    """A hard max over windows, ready to run."""

    def forward(self, x: object) -> object: ...

    def forward_into(self, x: object, out: object) -> object: ...

    def forward_with_indices(self, x: object) -> tuple[Any, Any]: ...

    def jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def vjp(self, x: object) -> tuple[Any, Any]: ...

def max_pool(windows: Windows, ties: str, nan: str, cells: str = 'plain') -> MaxOperator: ...

def adaptive_max_pool(name: str, output_size: Sequence[int], ties: str, nan: str) -> MaxOperator: ...

def global_max_pool(name: str, ndim: int, keepdims: bool, ties: str, nan: str, cells: str = 'plain') -> MaxOperator: ...

class AvgPullback:
    """From an output cotangent to the input's; None if it must be exact."""

    def __call__(self, cotangent: object) -> object: ...

class SignPullback:
    """From an output cotangent to that of cells whose signs are kept."""

    def __call__(self, cotangent: object) -> object: ...

class PresentPullback:
    """From an output cotangent to that of the cells with numbers."""

    def __call__(self, cotangent: object) -> object: ...

class AvgOperator:
    """An average over windows, ready to run."""

    def forward(self, x: object) -> object: ...

    def forward_magnitudes(self, x: object) -> object: ...

    def magnitudes_jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def magnitudes_vjp(self, x: object) -> tuple[Any, Any]: ...

    def forward_into(self, x: object, out: object) -> object: ...

    def forward_as(self, x: object, dtype: str, out: object | None) -> tuple[Any, Any]: ...

    def present_forward(self, x: object, out: object | None) -> object: ...

    def present_jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def present_vjp(self, x: object) -> tuple[Any, Any]: ...

    def jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def vjp(self, x: object) -> tuple[Any, Any]: ...

def avg_pool(windows: Windows, count_include_pad: bool, divisor: int) -> AvgOperator: ...

def adaptive_avg_pool(name: str, output_size: Sequence[int]) -> AvgOperator: ...

def global_avg_pool(name: str, ndim: int, keepdims: bool, divisor: int = 0) -> AvgOperator: ...

class OrderPullback:
    """From an output cotangent to that of the picked cells."""

    def __call__(self, cotangent: object) -> object: ...

class OrderOperator:
    """A median or a mode over windows, ready to run."""

    def forward(self, x: object, out: object | None) -> object: ...

    def jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def vjp(self, x: object) -> tuple[Any, Any]: ...

def order_pool(windows: Windows, mode: bool, ignore_nan: bool) -> OrderOperator: ...

class SmoothOperator:
    """A smooth max over windows; each result with what is undecided."""

    def forward(self, x: object, out: object | None = None) -> tuple[Any, Any]: ...

    def jvp(self, x: object, tangent: object) -> tuple[Any, Any]: ...

    def vjp(self, x: object, cotangent: object) -> tuple[Any, Any]: ...

def smooth_max_pool(windows: Windows, beta_high: float, beta_low: float, negative: bool) -> SmoothOperator: ...

def unfold(name: str, axes: Sequence[Sequence[int]], x: object, shape: Sequence[int]) -> object: ...

def fold(name: str, axes: Sequence[Sequence[int]], x: object, shape: Sequence[int]) -> object: ...

class Placed: ...

def place(name: str, ndim: int, values: object, indices: object, shape: Sequence[int]) -> tuple[Any, Any]: ...

def place_two(
    name: str, ndim: int, values: object, tangents: object, indices: object, shape: Sequence[int]
) -> tuple[Any, Any, Any]: ...

def place_keep(
    name: str, ndim: int, values: object, indices: object, shape: Sequence[int]
) -> tuple[Any, Placed, Any]: ...

def normalize(
    name: str,
    work: int,
    sizes: Sequence[int],
    flags: Sequence[bool],
    eps: float,
    x: object,
    arrays: list[Any],
    moments: object | None,
    known: bool,
    shape: Sequence[int],
) -> tuple[Any, Any]: ...
def weighted_taps(
    name: str, x: object, axes: Sequence[Any], divisor: int, bits: int, reach: float, negative: bool
) -> tuple[Any, Any]: ...
def squares(
    name: str, arrays: Sequence[Any], by_cell: bool, g_by_row: bool, factor: float, divisor: float
) -> tuple[Any, Any]: ...
def cross_entropy(
    name: str, work: int, by_row: bool, arrays: Sequence[Any], base_total: Sequence[float], scale: Sequence[float]
) -> tuple[Any, Any]: ...
def normalize_pullback(
    name: str,
    sizes: Sequence[int],
    flags: Sequence[bool],
    eps: float,
    x: object,
    arrays: list[Any],
    moments: object | None,
    known: bool,
    wanted: Sequence[bool],
    shape: Sequence[int],
    weight_shape: Sequence[int],
) -> tuple[Any, Any, Any]: ...
def softmax(
    name: str, work: int, logarithm: bool, x: object, t: object | None, kept: object | None = None
) -> tuple[Any, Any]: ...
def softmax_keeping(name: str, logarithm: bool, x: object, copied: bool) -> tuple[Any, Any, Any, Any]: ...
def group_statistics(
    name: str,
    sizes: Sequence[int],
    flags: Sequence[bool],
    x: object,
    moments: object | None,
    old: object | None,
    momentum: float,
    squares: bool,
    correction: int,
    shape: Sequence[int],
) -> tuple[Any, Any]: ...
def give_signs(name: str, x: object, values: object, zeros: bool) -> tuple[Any, bool]: ...
def elementwise(
    name: str,
    function: int,
    first: float,
    second: float,
    x: object,
    t: object | None = None,
    what: str = "tangent",
    out: object | None = None,
) -> tuple[Any, Any, Any, Any]: ...

def norm2(name: str, axes: Sequence[Sequence[int]], x: object, shape: Sequence[int]) -> tuple[Any, Any]: ...
def norm2_keep(
    name: str, axes: Sequence[Sequence[int]], x: object, shape: Sequence[int]
) -> tuple[Any, Any, Any, Any]: ...
def norm2_jvp(
    name: str, axes: Sequence[Sequence[int]], x: object, t: object, shape: Sequence[int]
) -> tuple[Any, Any, Any, Any]: ...
def norm2_vjp(name: str, axes: Sequence[Sequence[int]], x: object, inverse: object, g: object) -> tuple[Any, Any]: ...

def magnitude_jvp(
    name: str, axes: Sequence[Sequence[int]], x: object, t: object, shape: Sequence[int]
) -> tuple[Any, Any, Any] | None: ...
def magnitude_keep(
    name: str, axes: Sequence[Sequence[int]], x: object, shape: Sequence[int]
) -> tuple[Any, Any, Any] | None: ...
def magnitude_vjp(
    name: str, axes: Sequence[Sequence[int]], winners: object, g: object, shape: Sequence[int]
) -> object: ...

def pick(name: str, placed: Placed, cells: object) -> object: ...

def keep_mask(seed: int, step: int, layer: int, first: int, threshold: int, kept: int, bytes: int, count: int) -> object: ...

class FractionalPullback:
    """From an output cotangent to the input's."""

    def __call__(self, cotangent: object) -> object: ...

class FractionalOperator:
    """A hard max over windows with given starts."""

    def __init__(self, name: str, kernel: Sequence[int], output: Sequence[int], ties: str, nan: str) -> None: ...

    def forward(self, x: object, starts: object) -> object: ...

    def forward_with_indices(self, x: object, starts: object) -> tuple[Any, Any]: ...

    def jvp(self, x: object, tangent: object, starts: object) -> tuple[Any, Any]: ...

    def vjp(self, x: object, starts: object) -> tuple[Any, Any]: ...
