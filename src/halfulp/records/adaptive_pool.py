"""What the two adaptive records share: the output size and the bins."""

from __future__ import annotations

from typing import Any

from halfulp.errors import ShapeError
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, Shape, is_integer, ranked, split_spatial
from halfulp.records._missing import normalise_policies


class AdaptiveOperator(Operator):
    """An operator over the bins [floor(i*in/out), ceil((i+1)*in/out)) of every spatial axis."""

    output_size: Any

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.output_size)

    def __post_init__(self) -> None:
        rank = arguments.rank_of(self.base_name, output_size=self.output_size)
        name = ranked(self.base_name, rank)
        for size in self.output_size:
            if size is not None and (not is_integer(size) or size < 1):
                raise ShapeError(
                    name,
                    f"output_size={tuple(self.output_size)!r}",
                    "every output size must be an integer >= 1, or None to keep the input's size",
                    "D1",
                )
            if size is not None and size >= arguments.LARGEST:
                raise ShapeError(
                    name, f"output_size={tuple(self.output_size)!r}", "every output size must be below 2**60", "I7"
                )
        sizes = tuple(None if size is None else int(size) for size in self.output_size)
        object.__setattr__(self, "output_size", sizes)
        normalise_policies(self)

    def spatial_output(self, spatial: Shape) -> Shape:
        """The output's spatial sizes; None keeps the input's."""
        return tuple(n if m is None else m for n, m in zip(spatial, self.output_size, strict=True))

    def output_shape(self, *input_shapes: Shape) -> Shape:
        leading, spatial = split_spatial(self.name, input_shapes, self.ndim)
        return leading + self.spatial_output(spatial)
