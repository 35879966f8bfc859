"""The result as JSON, with a schema that ships with the package."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from halfulp import __version__
from halfulp.conformance.report.coverage import Coverage
from halfulp.conformance.report.result import Demand, Reproducer, Result, SubjectResult
from halfulp.conformance.summary import Summary
from halfulp.conformance.units import Plan

__all__ = ["from_json", "load_schema", "to_json", "write_json"]

FORMAT = "halfulp-check/1"


def load_schema() -> dict[str, Any]:
    """The JSON Schema of a report.

    >>> load_schema()["properties"]["format"]["const"]
    'halfulp-check/1'
    """
    text = resources.files("halfulp.conformance.report").joinpath("schema.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def to_json(result: Result) -> dict[str, Any]:
    """The whole result as plain data."""
    return {
        "format": FORMAT,
        "halfulp": __version__,
        "date": result.date,
        "seconds": round(result.seconds, 3),
        "finished": result.finished,
        "machine": result.machine,
        "plan": json.loads(json.dumps(asdict(result.plan))),
        "demand": {
            "aspects": list(result.demand.aspects),
            "ulps": result.demand.ulps,
            "unsupported": result.demand.unsupported,
            "severities": list(result.demand.severities),
            "given": result.demand.given,
        },
        "passed": result.passed,
        "coverage": [item.to_json() for item in result.coverage],
        "subjects": [
            {
                "name": subject.name,
                "version": subject.version,
                "complete": subject.complete,
                "passed": result.demand.met_by(subject),
                "severities": subject.counts(),
                "cells": subject.summary.to_json(),
                "reproducers": [r.to_json() for r in subject.reproducers],
            }
            for subject in result.subjects
        ],
    }


def from_json(data: dict[str, Any]) -> Result:
    """The result that :func:`to_json` wrote: to merge reports, or to draw one again."""
    if data.get("format") != FORMAT:
        raise ValueError(f"format={data.get('format')!r}: must be {FORMAT!r}")
    plan = dict(data["plan"])
    for key in ("operators", "modes", "dtypes"):
        plan[key] = tuple(plan[key])
    return Result(
        Plan(**plan),
        [
            SubjectResult(
                item["name"],
                item["version"],
                Summary.from_json(item["cells"]),
                item["complete"],
                [Reproducer(**r) for r in item["reproducers"]],
            )
            for item in data["subjects"]
        ],
        _demand(data["demand"]),
        data["seconds"],
        data["finished"],
        data["date"],
        data["machine"],
        [Coverage(**item) for item in data.get("coverage", [])],  # older reports have none
    )


def _demand(data: dict[str, Any]) -> Demand:
    """The demand of a report; reports made before there were severities name every aspect instead."""
    severities = tuple(data.get("severities", ()))
    return Demand(tuple(data["aspects"]), data["ulps"], data["unsupported"], severities, data.get("given", True))


def write_json(result: Result, path: Path) -> None:
    """Write the result to a file."""
    path.write_text(json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
