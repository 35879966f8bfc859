"""A node standing in for an array in the functional forms, so that the tape's methods use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfulp.autograd.tape import Tape


class Handle:
    """A node of a tape that an operator is applied to: the application appends a node to the tape."""

    __slots__ = ("id", "name", "tape")

    def __init__(self, tape: Tape, id: int | None, name: str | None = None) -> None:
        self.tape = tape
        self.id = id
        self.name = name

    @property
    def ndim(self) -> int:
        """The number of axes of the node's value."""
        return int(self.tape.value(self.id).ndim)  # type: ignore[arg-type]  # None is refused by name

    def __halfulp_apply__(self, op: Any, inputs: tuple[Any, ...]) -> tuple[Tape, int]:
        return self.tape.apply(op, *(None if given is None else given.id for given in inputs), name=self.name)
