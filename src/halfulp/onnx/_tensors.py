"""The tensors of a model as arrays: every size is checked before anything is read or made."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from halfulp.errors import ModelError
from halfulp.onnx._memory import OBJECT_BYTES
from halfulp.onnx._small import SMALL, stored, unpacked
from halfulp.onnx._wire import Place

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_MOST_AXES = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32

# Element type -> (dtype, the repeated field that holds the values where raw_data does not).
_TYPES: dict[int, tuple[np.dtype[Any], str]] = {
    TensorProto.FLOAT: (np.dtype(np.float32), "float_data"),
    TensorProto.DOUBLE: (np.dtype(np.float64), "double_data"),
    TensorProto.FLOAT16: (np.dtype(np.float16), "int32_data"),
    TensorProto.BFLOAT16: (_BFLOAT16, "int32_data"),
    TensorProto.INT8: (np.dtype(np.int8), "int32_data"),
    TensorProto.INT16: (np.dtype(np.int16), "int32_data"),
    TensorProto.INT32: (np.dtype(np.int32), "int32_data"),
    TensorProto.INT64: (np.dtype(np.int64), "int64_data"),
    TensorProto.UINT8: (np.dtype(np.uint8), "int32_data"),
    TensorProto.UINT16: (np.dtype(np.uint16), "int32_data"),
    TensorProto.UINT32: (np.dtype(np.uint32), "uint64_data"),
    TensorProto.UINT64: (np.dtype(np.uint64), "uint64_data"),
    TensorProto.BOOL: (np.dtype(np.bool_), "int32_data"),
    **{code: (entry.dtype, "int32_data") for code, entry in SMALL.items()},
}


def dtype_of(owner: str, argument: str, element_type: int) -> np.dtype[Any]:
    """The dtype of an ONNX element type; one that NumPy and halfulp do not share is refused."""
    if element_type not in _TYPES:
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(element_type) if element_type in known else element_type
        raise ModelError(owner, argument, f"element type {name} is not a float, integer or bool type", "O6")
    return _TYPES[element_type][0]


def check_size(
    owner: str, argument: str, shape: tuple[int, ...], dtype: np.dtype[Any], limit: int, used: int = 0, scratch: int = 0
) -> None:
    """Refuse an array that would be larger than what the limit leaves, or that NumPy cannot have, before it is made.

    ``used`` bytes are taken already; ``scratch`` is what the operator needs besides, in bytes per element.
    """
    if len(shape) > _MOST_AXES:
        raise ModelError(owner, argument, f"has {len(shape)} axes; there may be up to {_MOST_AXES}", "O6")
    itemsize = OBJECT_BYTES if dtype.hasobject else dtype.itemsize
    size = math.prod(shape) * (itemsize + scratch)
    if size + used > limit:
        besides = f" and {scratch} bytes of scratch memory for each element" if scratch else ""
        others = f" besides the {used} bytes in use" if used else ""
        raise ModelError(owner, argument, f"{shape} of {dtype}{besides}{others} is more than max_bytes={limit}", "O6")
    if math.prod(max(1, n) for n in shape) * itemsize > sys.maxsize:  # NumPy refuses these even if one size is 0
        raise ModelError(owner, argument, f"the sizes of its shape {shape} are too large for memory addresses", "O6")


def array_of(
    tensor: TensorProto,
    folder: Path | None,
    limit: int,
    owner: str = "model",
    used: int = 0,
    place: Place | None = None,
) -> NDArray[Any]:
    """A tensor's values. External data is read only from a file inside ``folder``.

    ``place`` is where the raw data stayed that is not in the message.
    """
    argument = f"tensor {tensor.name!r}"
    dtype = dtype_of(owner, argument, tensor.data_type)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise ModelError(owner, argument, f"a size of its shape {shape} is negative", "O6")
    check_size(owner, argument, shape, dtype, limit, used)
    count = math.prod(shape)
    if tensor.HasField("segment"):
        raise ModelError(owner, argument, "a tensor in segments is not supported", "O6")
    if tensor.data_type in SMALL:
        return _small(tensor, folder, owner, place, shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        outside = _external(tensor, folder, owner, argument, count * dtype.itemsize)
        return _mapped(owner, argument, outside, shape, dtype)
    if place is not None:
        return _from_bytes(owner, argument, _read(place), shape, dtype)
    if tensor.HasField("raw_data"):
        return _from_bytes(owner, argument, tensor.raw_data, shape, dtype)
    values = getattr(tensor, _TYPES[tensor.data_type][1])
    if len(values) != count:
        raise ModelError(owner, argument, f"has {len(values)} values, but its shape {shape} has {count}", "O6")
    return _from_values(owner, argument, values, dtype).reshape(shape)


def _small(
    tensor: TensorProto, folder: Path | None, owner: str, place: Place | None, shape: tuple[int, ...]
) -> NDArray[Any]:
    """A tensor whose elements take a byte or less in the file."""
    argument, entry, count = f"tensor {tensor.name!r}", SMALL[tensor.data_type], math.prod(shape)
    size = stored(count, entry.bits)
    if tensor.data_location == TensorProto.EXTERNAL:
        place = _external(tensor, folder, owner, argument, size)
    if place is not None or tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data if place is None else _read(place), np.uint8)
    else:
        data = _from_values(owner, argument, tensor.int32_data, np.dtype(np.uint8))
    if len(data) != size:
        raise ModelError(owner, argument, f"has {len(data)} bytes, but {shape} of {entry.dtype} has {size}", "O6")
    return unpacked(data, count, entry).reshape(shape)


def _read(place: Place) -> bytes:
    with place.path.open("rb") as file:
        file.seek(place.offset)
        return file.read(place.length)


def _mapped(owner: str, argument: str, place: Place, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """External data as a view of its file, if it lies as an array does; a copy otherwise."""
    whole = place.path.stat().st_size - place.offset >= place.length
    if sys.byteorder == "big" or dtype == np.bool_ or not whole or not place.length or place.offset % dtype.itemsize:
        return _from_bytes(owner, argument, _read(place), shape, dtype)
    view: NDArray[Any] = np.memmap(place.path, dtype=dtype, mode="r", offset=place.offset, shape=shape)
    return view.view(np.ndarray)


def _from_bytes(owner: str, argument: str, data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ModelError(owner, argument, f"has {len(data)} bytes, but {shape} of {dtype} has {expected}", "O6")
    if dtype == np.bool_ and any(byte > 1 for byte in data):
        raise ModelError(owner, argument, "a bool must be a byte 0 or 1", "O6")
    array: NDArray[Any] = np.frombuffer(data, dtype=dtype)  # read-only, over the bytes themselves
    if sys.byteorder == "big":  # the file is little-endian
        array = array.byteswap()
    return array.reshape(shape)


def _from_values(owner: str, argument: str, values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values of a repeated field; the half types are given as their bits."""
    if dtype.itemsize == 2 and (dtype == np.float16 or dtype == _BFLOAT16):
        wide = np.array(values, dtype=np.int64)
        if ((wide < 0) | (wide > 0xFFFF)).any():
            raise ModelError(owner, argument, "the bits of a half-precision value are at most 65535", "O6")
        return wide.astype(np.uint16).view(dtype)
    if dtype.kind == "f":
        return np.array(values, dtype=dtype)
    wide = np.array(values, dtype=np.uint64 if dtype == np.uint64 or dtype == np.uint32 else np.int64)
    narrow = wide.astype(dtype)
    if (narrow.astype(wide.dtype) != wide).any():
        raise ModelError(owner, argument, f"a value does not fit in {dtype}", "O6")
    return narrow


def _external(tensor: TensorProto, folder: Path | None, owner: str, argument: str, expected: int) -> Place:
    """Where another file holds a tensor, if that file lies inside the model's folder."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    if folder is None:
        raise ModelError(owner, f"{argument}, location={location!r}", "external data needs a model from a file", "O5")
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        inside = location != "" and not Path(location).is_absolute() and path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name no file can have, or a circle of links
        inside = False
    if not inside:
        raise ModelError(owner, f"{argument}, location={location!r}", "must be a file inside the model's folder", "O5")
    offset, length = (
        _number(owner, argument, key, fields.get(key, default)) for key, default in (("offset", "0"), ("length", ""))
    )
    if length not in (None, expected):
        raise ModelError(owner, argument, f"has length={length} bytes, but its shape needs {expected}", "O6")
    return Place(path, offset or 0, expected)


def _number(owner: str, argument: str, key: str, text: str) -> int | None:
    if text == "":
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise ModelError(owner, argument, f"{key}={text!r} is not a number of bytes", "O6")
    return int(text)
