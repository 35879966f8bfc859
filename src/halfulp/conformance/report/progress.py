"""A progress bar with the findings so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from halfulp.conformance.campaign import Progress as Report
from halfulp.conformance.journal import Journal

__all__ = ["live_progress"]


@contextmanager
def live_progress(console: Console, quiet: bool = False) -> Iterator[Report]:
    """A function to call after each unit; it moves a bar if the console is a terminal."""
    if quiet or not console.is_terminal:
        yield lambda done, total, so_far: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[found]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("loading", total=None, found="")

        def report(done: int, total: int, so_far: Journal) -> None:
            cells = [cell for summary in so_far.summaries.values() for cell in summary.cells.values()]
            failed = sum(cell.failed + cell.crashed for cell in cells)
            found = f"{sum(cell.cases for cell in cells):,} cases, {failed:,} wrong"
            word = "shrinking failures" if done == total and failed else "checking"
            bar.update(task, completed=done, total=total, description=word, found=found)

        yield report
