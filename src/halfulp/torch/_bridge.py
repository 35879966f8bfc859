"""A declared operator on tensors: its arguments as PyTorch takes them, then the operators of its family."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache, wraps
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from halfulp.errors import HalfulpError
from halfulp.functional._source import functions as numpy_functions
from halfulp.numbers import FORMATS
from halfulp.records import AdaptiveOperator, Declaration, Operator, declaration_of
from halfulp.records._missing import INTEGERS, dtype_name
from halfulp.torch._arguments import (
    check_half_padding,
    padding_per_axis,
    per_axis,
    rank_of,
    remembered,
    stride_or_kernel,
)
from halfulp.torch._conv import ConvolutionBridge, spatial_rank
from halfulp.torch._errors import TorchShapeError, as_torch_error
from halfulp.torch._pooling import CurvedPooling, LinearPooling, check_rank, check_tensor
from halfulp.torch._several import Several
from halfulp.torch._tensors import cast_to

_PER_AXIS = ("kernel_size", "stride", "padding", "dilation", "output_size")
_SCHEMA = {"bool": "bool", "str": "str", "int": "int", "float": "float", "int | None": "int?"}
_TYPED = ("dtype", "nan")
"""Fields of averages and sums. A result of another type, or without its NaNs, is no linear map of the input."""
_DTYPES = {getattr(torch, name): name for name in (*INTEGERS, *FORMATS)}
_SINGLE_UNDER_AUTOCAST = frozenset(
    (
        *("max_pool3d", "avg_pool3d", "lp_pool3d", "adaptive_avg_pool3d", "adaptive_max_pool3d"),
        *("fractional_max_pool2d", "fractional_max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"),
    )
)
"""What autocast computes in float32, as in PyTorch; but not ``max_pool3d`` with indices."""
EXTRA = {"avg_pool1d": ("divisor_override",), "lp_pool": ("padding", "dilation")}
"""Parameters that PyTorch's function of this name does not have: keyword-only here."""


class Bridge:
    """The functions of one operator; a call gives the rank, the tensors, and the record's fields in their order."""

    def __init__(self, record: type[Operator]) -> None:
        declaration = declaration_of(record)
        self.name = declaration.name
        chosen = [f for f in fields(record) if f.name not in declaration.hidden]
        self.fields = tuple(f.name for f in chosen if f.name != "ndim")
        self.ranked = declaration.rank_field == "ndim"
        self.suffixed = bool(declaration.ranks)
        self.adaptive = issubclass(record, AdaptiveOperator)
        self.elementwise = record.elementwise
        names = tuple(f.name for f in chosen)
        self._prepared = remembered(self._parameters)
        self._plain = self.fields
        self.typed: CurvedPooling | None = None
        if declaration.curvature.constant:
            plain = tuple(name for name in names if name not in _TYPED)
            self.family: Any = LinearPooling(declaration, *_schema_and_maker(declaration, plain))
            if plain != names:
                self._plain = self.fields[: -len(_TYPED)]
                self.typed = CurvedPooling(declaration, *_schema_and_maker(declaration, names), suffix="_typed")
        else:
            self.family = CurvedPooling(declaration, *_schema_and_maker(declaration, names))

    def __call__(self, ndim: int, tensors: tuple[Tensor, ...], return_indices: bool, *values: Any) -> Any:
        """The operator on tensors of this rank."""
        name = f"{self.name}{ndim}d" if self.suffixed else self.name
        single = name in _SINGLE_UNDER_AUTOCAST and not (return_indices and name == "max_pool3d")
        if single and torch.is_autocast_enabled("cpu") and isinstance(tensors[0], Tensor):
            tensors = tuple(cast_to(tensor, torch.float32) for tensor in tensors)
        input = tensors[0]
        if self.elementwise:
            check_tensor(name, input)
        else:
            check_rank(name, input, ndim if self.name != "fold" else 1)
        family = self.family
        if self.typed is not None:
            *values, dtype, nan = values  # type: ignore[assignment]
            options = (_dtype_word(name, dtype), nan)
            family = self.family if options == (None, "propagate") else self.typed
        if self.adaptive:
            sizes = output_sizes(name, values[0], input.shape, ndim)
            parameters = (sizes, *values[1:])
            if 0 in sizes:
                output = without_cells(input, sizes)
                return (output, torch.empty_like(output, dtype=torch.int64)) if return_indices else output
        else:  # the compiler sees through the plain function, not through its memory
            parameters = (self._parameters if torch.compiler.is_compiling() else self._prepared)(ndim, *values)
        if family is self.typed:
            parameters += options
        if return_indices:
            return family.apply_with_indices(tensors, *parameters)
        return family.apply(tensors, *parameters)

    def _parameters(self, ndim: int, *values: Any) -> tuple[Any, ...]:
        name = f"{self.name}{ndim}d" if self.suffixed else self.name
        kernel: tuple[int, ...] = ()
        given: list[Any] = [ndim] if self.ranked else []
        for field, value in zip(self._plain, values, strict=True):
            if field == "stride":
                value = stride_or_kernel(name, value, kernel, ndim)
            elif field == "output_size" and value is None:
                pass
            elif field == "output_size" and hasattr(value, "__len__") and len(value) == ndim + 2:
                value = tuple(value)[2:]  # PyTorch's unpooling also takes the whole shape
            elif field == "padding":
                value = padding_per_axis(name, value, ndim)
            elif field in _PER_AXIS:
                value = per_axis(name, field, value, ndim)
                kernel = value if field == "kernel_size" else kernel
            elif field in ("beta", "p") or (self.elementwise and isinstance(value, int)):
                value = float(value)
            given.append(value)
        return tuple(given)


def _dtype_word(operator: str, dtype: Any) -> str | None:
    """The element type of a result as a schema holds it."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    try:
        return _DTYPES.get(dtype) or dtype_name(operator, dtype)
    except HalfulpError as error:
        raise as_torch_error(error) from None


def _schema_and_maker(declaration: Declaration, names: tuple[str, ...]) -> tuple[str, Callable[..., Operator]]:
    """The parameters of an operator with these fields as PyTorch's schema, and the record that they make."""
    halves = declaration.torch and {"padding", "ceil_mode"} <= {*names}

    @lru_cache(maxsize=1024, typed=True)
    def made(*parameters: Any) -> Operator:
        given = dict(zip(names, parameters, strict=True))
        padding = given.get("padding", ())
        if padding and len(padding) == 2 * len(given["kernel_size"]):
            given["padding"] = tuple(zip(padding[::2], padding[1::2], strict=True))
        op: Any = declaration.record(**given)
        if halves:
            check_half_padding(op.name, op.kernel_size, op.padding)
        return op  # type: ignore[no-any-return]

    types = {p.field: p.annotation for p in declaration.parameters} | {"ndim": "int"}
    defaults = {p.field for p in declaration.parameters if p.default is None}
    return ", ".join(f"{_type(name, types, name in defaults)} {name}" for name in names), made


_bridges: dict[Any, Any] = {}


def bridge_of(record: type[Operator]) -> Any:
    """The bridge of an operator; its operators are registered with PyTorch once."""
    if record not in _bridges:
        declaration = declaration_of(record)
        if declaration.convolution:
            _bridges[record] = ConvolutionBridge(record)
        else:
            _bridges[record] = Several(declaration) if declaration.several else Bridge(record)
    return _bridges[record]


def bridges_of(*records: type[Operator]) -> list[Any]:
    """The bridges of operators whose indices may be asked for."""
    return [bridge_of(record) for record in records]


def tensors_of(*records: type[Operator]) -> list[Callable[..., Tensor]]:
    """The bridges of operators that give one tensor."""
    return bridges_of(*records)


def apply_record(op: Operator, x: Tensor) -> Any:
    """An operator of one input and no rank on a tensor."""
    bridge = bridge_of(type(op))
    return bridge(0, (x,), False, *(getattr(op, name) for name in bridge.fields))


def functions(record: type[Operator]) -> SimpleNamespace:
    """The functional forms of any declared operator, on tensors.

    >>> import torch, halfulp as hu, halfulp.torch as ht
    >>> ht.functions(hu.MaxPool).max_pool1d(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
    tensor([[4., 3.]])
    """
    declaration, bridge = declaration_of(record), bridge_of(record)
    plain = vars(numpy_functions(record))
    ranks: dict[str, int | None] = {f"{declaration.name}{rank}d": rank for rank in declaration.ranks}
    ranks[declaration.name] = None if ranks else declaration.default_rank or 0
    return SimpleNamespace(**{name: _form(bridge, declaration, plain[name], rank) for name, rank in ranks.items()})


def _form(bridge: Any, declaration: Declaration, function: Any, rank: int | None) -> Any:
    by_field = {p.field: p.name for p in declaration.parameters}
    names = [by_field[field] for field in bridge.fields]
    signature = inspect.signature(function)
    parameters = [p for name, p in signature.parameters.items() if name != "out"]
    signature = signature.replace(parameters=parameters)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        tensors = tuple(given[name] for name in declaration.given)
        axes = rank
        if axes is None and declaration.convolution:  # the form without a suffix
            axes = spatial_rank(declaration.name, given["weight"])
        elif axes is None:
            field = str(declaration.rank_field)
            axes = given[field] if field == "ndim" else rank_of(declaration.name, field, given[field])
        return bridge(axes, tensors, given.get("return_indices", False), *(given[name] for name in names))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _type(name: str, types: dict[str, str], optional: bool) -> str:
    """A field's type in a schema; what is not said is a number."""
    if name == "dtype":
        return "str?"
    if name in _PER_AXIS:
        return "int[]?" if optional and name == "output_size" else "int[]"
    return _SCHEMA.get(types[name], "float")


def output_sizes(operator: str, output_size: Any, shape: Any, ndim: int) -> tuple[int, ...]:
    """The output's spatial sizes; None keeps the input's."""
    if not isinstance(output_size, (list, tuple, torch.Size)):
        output_size = (output_size,) * ndim
    elif len(output_size) != ndim:
        raise TorchShapeError(
            operator, f"output_size={tuple(output_size)}", f"must be an integer or {ndim} of them", "W6"
        )
    return tuple(n if m is None else m for n, m in zip(shape[len(shape) - ndim :], output_size, strict=True))


def without_cells(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """PyTorch takes an output size of 0: an empty tensor that still hangs on ``x``."""
    leading = x.shape[: x.dim() - len(sizes)]
    return x.flatten(x.dim() - len(sizes))[..., :0].reshape(*leading, *sizes)
