"""A progress bar for long exact evaluations, shown only when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def track(items: Sequence[T], label: str, shown: bool) -> Iterable[T]:
    """``items``, with a bar on standard error while they are consumed if ``shown``."""
    if not shown:
        return items
    from rich.console import Console
    from rich.progress import track as rich_track

    return rich_track(items, description=label, console=Console(stderr=True))
