"""The subjects ``torch``, ``torch-compile`` and ``torch-channels-last``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch.autograd import forward_ad as _forward_ad

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject, Unsupported
from halfulp.conformance.subjects._torch_source import function_source
from halfulp.records import Array, Operator

forward_ad: Any = _forward_ad  # without type annotations of its own
_IMPORTS = "import numpy as np\nimport torch\nimport torch.nn.functional as F"


@lru_cache(maxsize=256)
def _function(text: str) -> Callable[..., Any]:
    """The function that a reproducer would show, so that what is tested is what is printed."""
    namespace: dict[str, Any] = {}
    exec(f"{_IMPORTS}\n{text}", namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def tensor(array: Array) -> torch.Tensor:
    """A tensor with the array's numbers and layout; torch has no negative strides, so those are copied."""
    array = np.asarray(array)  # a result without axes may come as a scalar
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    array = array if array.flags.writeable else array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(result: torch.Tensor) -> Array:
    """The tensor's numbers as a NumPy array."""
    result = result.detach()
    if result.dtype == torch.bfloat16:
        from ml_dtypes import bfloat16

        return result.contiguous().view(torch.int16).numpy().view(bfloat16)
    return result.numpy()


class TorchSubject(Subject):
    """PyTorch's own operators on the CPU: eager mode, autograd and forward-mode AD."""

    name: ClassVar[str] = "torch"

    def __init__(self) -> None:
        torch.set_num_threads(1)

    @property
    def version(self) -> str:
        return str(torch.__version__)

    def _prepared(self, op: Operator, inputs: tuple[Array | None, ...]) -> tuple[Callable[..., Any], list[Any]]:
        """The function for a record, and the tensors it takes."""
        shape = inputs[0].shape if inputs[0] is not None else ()
        return _function(function_source(op, shape)), [tensor(a) for a in inputs if a is not None]

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        function, tensors = self._prepared(op, inputs)
        with torch.no_grad():
            return array_of(function(*tensors))

    def indices(self, op: Operator, x: Array) -> Array:
        function = _function(function_source(op, x.shape, indices=True))
        with torch.no_grad():
            return array_of(function(tensor(x)))

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        function, tensors = self._prepared(op, primals)
        directions = [tensor(t) for t in tangents if t is not None]
        with forward_ad.dual_level():
            moved = [forward_ad.make_dual(p, t) for p, t in zip(tensors, directions, strict=False)]
            duals = [*moved, *tensors[len(moved) :]]  # what has no derivative comes last
            out = forward_ad.unpack_dual(function(*duals))
            if out.tangent is None:
                raise Unsupported("torch gave no tangent")
            return array_of(out.primal), array_of(out.tangent)

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        function, tensors = self._prepared(op, primals)
        count = sum(p is not None for p in primals[: op.arity - len(op.constants)])
        for item in tensors[:count]:
            item.requires_grad_()
        out = function(*tensors)
        found = [array_of(g) for g in torch.autograd.grad(out, tensors[:count], tensor(cotangent).reshape(out.shape))]
        return tuple(None if p is None or not found else found.pop(0) for p in primals)

    def set_num_threads(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        named = source.named_arrays(mode, arrays, source.names_of(op))
        dtype = named[0][1].dtype.name
        lines = [_IMPORTS, *self._script_setup()]
        lines += [
            f"{name} = torch.from_numpy({source.literal(a)}).to(torch.{source.type_of(a, dtype)})" for name, a in named
        ]
        lines += _layout_lines(mode, arrays.primals[0])
        lines += self._script_inputs(arrays)
        lines += ["", function_source(op, arrays.primals[0].shape, indices), ""]
        names = source.given_names(arrays, source.names_of(op))
        return "\n".join([*lines, *_script_call(mode, names, dtype, op.constants)])

    def circumstance_script(self, op: Operator, mode: str, arrays: Any, name: str) -> str | None:
        body = self.script(op, mode, arrays)
        change = _change(name)
        if body is None or change is None:
            return None
        names = source.given_names(arrays, source.names_of(op))
        dtype = arrays.primals[0].dtype.name
        call = _script_call(mode, names, dtype, op.constants)
        if mode == "vjp" and "batch" not in name:  # a weight's cotangent, too, must not depend on this
            body = "\n".join([*body.splitlines()[: -len(call)], *_all_cotangents(names, dtype, op.constants)])
            call = _all_cotangents(names, dtype, op.constants)
        lines = ["which = 0", body, "first = got", *change, *_detached(mode, names), *call]
        if "batch" in name:
            lines.append("first = first[:1]  # the same sample, computed in a batch of four")
        lines.append('print((first != got).sum(), "of", got.size, "elements differ")')
        return "\n".join([*lines, 'raise SystemExit("the bits differ" if (first != got).any() else 0)', ""])

    def _script_setup(self) -> list[str]:
        return ["torch.set_num_threads(1)", ""]

    def _script_inputs(self, arrays: Any) -> list[str]:
        return []


def _layout_lines(mode: str, x: Array) -> list[str]:
    """The input's memory layout, where it is not row-major; torch has no negative strides."""
    if x.ndim == 0 or x.flags.c_contiguous or isinstance(x, source.Seeded):
        return []
    names = ("x", "dx") if mode == "jvp" else ("x",)
    if x.ndim >= 3 and np.moveaxis(x, 1, -1).flags.c_contiguous:
        return [f"{n} = {n}.movedim(1, -1).contiguous().movedim(-1, 1)  # channels last in memory" for n in names]
    if min(x.strides) > 0:
        spread = "torch.stack([{0}, {0}], -1).flatten(-2)[..., ::2]"
        return [f"{n} = {spread.format(n)}  # every second element of a larger array" for n in names]
    return []


def _change(name: str) -> list[str] | None:
    """The lines that change one circumstance between two calls."""
    if "threads" in name:
        return ["torch.set_num_threads(2)"]
    if "channels last" in name:
        return ["x = x.detach().to(memory_format=torch.channels_last)"]
    if "batch" in name:
        return [
            "x = x.detach()[:1]",
            'dx = dx[:1] if "dx" in globals() else None',
            'cotangent = cotangent[:1] if "cotangent" in globals() else None',
        ]
    return None


def _detached(mode: str, names: list[str]) -> list[str]:
    """Fresh leaves for a second reverse pass."""
    return [f"{name} = {name}.detach()" for name in names] if mode == "vjp" else []


def _all_cotangents(names: list[str], dtype: str, fixed: tuple[str, ...] = ()) -> list[str]:
    """Every input's cotangent, one after the other."""
    as_numpy = ".float().numpy()" if dtype == "bfloat16" else ".numpy()"
    rest = "".join(f", {n}" for n in names if n in fixed)
    call = f"torch.autograd.grad(f(*inputs{rest}), inputs, cotangent)"
    return [
        f"inputs = [item.requires_grad_() for item in ({', '.join(n for n in names if n not in fixed)},)]",
        f"got = torch.cat([item.flatten() for item in {call}]).detach(){as_numpy}",
    ]


def _script_call(mode: str, names: list[str], dtype: str, fixed: tuple[str, ...] = ()) -> list[str]:
    """The lines that compute ``got`` in one mode; inputs that are ``fixed`` have no derivative."""
    as_numpy = ".float().numpy()" if dtype == "bfloat16" else ".numpy()"
    if mode == "forward":
        return [f"got = f({', '.join(names)}){as_numpy}"]
    if mode == "jvp":
        duals = ", ".join(name if name in fixed else f"forward_ad.make_dual({name}, d{name})" for name in names)
        return [
            "from torch.autograd import forward_ad",
            "with forward_ad.dual_level():",
            f"    got = forward_ad.unpack_dual(f({duals})).tangent.detach(){as_numpy}",
        ]
    listed, rest = ", ".join(n for n in names if n not in fixed), "".join(f", {n}" for n in names if n in fixed)
    return [
        f"inputs = [{listed}]",
        "for item in inputs:",
        "    item.requires_grad_()",
        f"got = torch.autograd.grad(f(*inputs{rest}), inputs, cotangent)[which].detach(){as_numpy}",
    ]


class TorchChannelsLastSubject(TorchSubject):
    """PyTorch on tensors in channels-last memory format, which has kernels of its own."""

    name: ClassVar[str] = "torch-channels-last"

    def _prepared(self, op: Operator, inputs: tuple[Array | None, ...]) -> tuple[Callable[..., Any], list[Any]]:
        function, tensors = super()._prepared(op, inputs)
        if tensors[0].dim() not in (4, 5):
            raise Unsupported("channels-last memory format is for inputs of 4 and 5 axes")
        form = torch.channels_last if tensors[0].dim() == 4 else torch.channels_last_3d
        tensors[0] = tensors[0].to(memory_format=form)
        return function, tensors

    def _script_inputs(self, arrays: Any) -> list[str]:
        form = "channels_last" if arrays.primals[0].ndim == 4 else "channels_last_3d"
        return [f"x = x.to(memory_format=torch.{form})"]


class TorchCompileSubject(TorchSubject):
    """PyTorch through ``torch.compile``; every record and shape is compiled anew, which takes seconds each."""

    name: ClassVar[str] = "torch-compile"

    def _prepared(self, op: Operator, inputs: tuple[Array | None, ...]) -> tuple[Callable[..., Any], list[Any]]:
        function, tensors = super()._prepared(op, inputs)
        return _compiled(function), tensors

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        raise Unsupported("torch.compile has no forward-mode derivative")

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        text = super().script(op, mode, arrays, indices)
        return None if text is None else text.replace("\ngot =", "\nf = torch.compile(f, dynamic=False)\ngot =")


@lru_cache(maxsize=64)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()  # keeps the number of compiled graphs, which dynamo limits, small
    return torch.compile(function, dynamic=False)
