"""The time of every node of a model: ``halfulp run MODEL --profile``."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

_SHOWN = 15


class NodeTime(NamedTuple):
    """A node, its operator and first output, and its best time in seconds."""

    node: str
    operator: str
    output: str
    seconds: float


def node_times(model: Any, inputs: list[Any], runs: int) -> list[NodeTime]:
    """The best time of every node over some runs, after one that nobody measures."""
    model.run(inputs)
    best: dict[int, NodeTime] = {}
    for _ in range(runs):
        started = time.perf_counter()

        def watch(position: int, step: Any, outputs: Any) -> None:
            nonlocal started
            seconds = time.perf_counter() - started
            if position not in best or seconds < best[position].seconds:
                best[position] = NodeTime(step.node.label, step.node.operator, _described(outputs), seconds)
            started = time.perf_counter()

        model.run(inputs, watch=watch)
    return [best[position] for position in sorted(best)]


def _described(outputs: Any) -> str:
    value = next((value for value in outputs if value is not None), None)
    return "" if value is None else f"{value.dtype}[{'x'.join(map(str, value.shape))}]"


def by_operator(times: list[NodeTime]) -> dict[str, dict[str, Any]]:
    """Operator -> number of nodes and seconds, the slowest first."""
    found: dict[str, dict[str, Any]] = {}
    for entry in times:
        row = found.setdefault(entry.operator, {"nodes": 0, "seconds": 0.0})
        row["nodes"] += 1
        row["seconds"] += entry.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]["seconds"]))


def report_of(times: list[NodeTime], runs: int) -> dict[str, Any]:
    """All times as JSON has them."""
    return {
        "runs": runs,
        "seconds": sum(entry.seconds for entry in times),
        "operators": by_operator(times),
        "nodes": [entry._asdict() for entry in times],
    }


def print_times(times: list[NodeTime], runs: int) -> None:
    """Two tables: operators, and the slowest nodes."""
    from rich.console import Console
    from rich.table import Table

    total = sum(entry.seconds for entry in times) or 1.0
    table = Table(title=f"{len(times)} nodes, {total * 1e3:.2f} ms, the best of {runs} runs for every node")
    for name in ("operator", "nodes", "ms", "share", "us a node"):
        table.add_column(name, justify="left" if name == "operator" else "right")
    for operator, row in by_operator(times).items():
        seconds, nodes = row["seconds"], row["nodes"]
        share = f"{seconds / total:.1%}"
        table.add_row(operator, str(nodes), f"{seconds * 1e3:.2f}", share, f"{seconds / nodes * 1e6:.0f}")
    slowest = Table("node", "first output", "ms", "share", title="slowest nodes")
    for entry in sorted(times, key=lambda entry: -entry.seconds)[:_SHOWN]:
        slowest.add_row(entry.node, entry.output, f"{entry.seconds * 1e3:.2f}", f"{entry.seconds / total:.1%}")
    console = Console()
    console.print(table)
    console.print(slowest)
