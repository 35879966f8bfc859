"""The result as one HTML file: no network, no other files, readable on a phone, in the dark and on paper."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from halfulp.conformance.report.data import to_json
from halfulp.conformance.report.result import Result, SubjectResult
from halfulp.conformance.report.terminal import sentence, share, ulps, worst_error
from halfulp.conformance.severity import SEVERITIES, severity
from halfulp.conformance.summary import Cell, Finding
from halfulp.conformance.verdict import ASPECTS

__all__ = ["to_fragment", "to_html", "write_html"]

_NOTEBOOK = "".join(  # scoped: a notebook has one style sheet for everything in it
    f".halfulp-check {rule}"
    for rule in (
        "ul{list-style:none;padding:0}",
        "li{border-left:4px solid;padding:2px 8px;margin:4px 0}",
        "li.good,.right{color:#168a5f}",
        "li.bad{color:#c8343a}",
        "td,th{text-align:left}",
        ".none{opacity:.6}",
        ".tag{display:inline-block;min-width:5.5em}",
        "dl.answers{display:grid;grid-template-columns:max-content 1fr;gap:0 1em}",
        ".copy{display:none}",
    )
)


def to_html(result: Result) -> str:
    """The page as text."""
    names = " · ".join(result.names())
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>halfulp check: {escape(names)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>",
            _header(result),
            _filters(result),
            "<main>",
            _comparison(result),
            _pictures(),
            _rules(result),
            _coverage(result),
            *(_findings(result, subject) for subject in result.subjects),
            *(_unsupported(subject) for subject in result.subjects),
            "</main>",
            _footer(result),
            f'<script type="application/json" id="data">{_embedded(result)}</script>',
            f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def to_fragment(result: Result) -> str:
    """What a notebook shows: the verdicts, the comparison and the findings, without scripts or filters."""
    chips = "".join(_chip(result, subject) for subject in result.subjects)
    parts = [_comparison(result), *(_findings(result, subject) for subject in result.subjects)]
    return f"<div class='halfulp-check'><style>{_NOTEBOOK}</style><ul>{chips}</ul>{''.join(parts)}</div>"


def write_html(result: Result, path: Path) -> None:
    """Write the page to a file."""
    path.write_text(to_html(result), encoding="utf-8")


def _asset(name: str) -> str:
    return resources.files("halfulp.conformance.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(result: Result) -> str:
    """The numbers behind the pictures; scripts and texts are in the page already."""
    data = to_json(result)
    kept = ("operator", "mode", "dtype", "cases", "unsupported", "elements", "correct", "histogram", "worst", "aspects")
    slim: dict[str, Any] = {
        "aspects": ASPECTS,
        "operators": list(result.plan.operators),
        "subjects": [
            {
                "name": subject["name"],
                "version": subject["version"],
                "cells": [{key: cell[key] for key in kept} for cell in subject["cells"]],
            }
            for subject in data["subjects"]
        ],
    }
    return json.dumps(slim, separators=(",", ":")).replace("<", "\\u003c")


def _header(result: Result) -> str:
    chips = "".join(_chip(result, subject) for subject in result.subjects)
    plan = result.plan
    ended = "" if result.finished else " Stopped before the end."
    machine = ", ".join(filter(None, (result.machine.get("system"), result.machine.get("machine"))))
    return (
        "<header><h1>halfulp check</h1>"
        f"<p class='lead'>Every answer compared with the exact one, rounded once. {escape(result.date[:10])}, "
        f"seed {plan.seed}, {plan.cases} cases per operator, mode and element type, {escape(machine)}.{ended}</p>"
        f"<ul class='chips'>{chips}</ul></header>"
    )


def _chip(result: Result, subject: SubjectResult) -> str:
    met = result.demand.met_by(subject)
    total = subject.summary.total()
    word = "passes" if met else "fails" if total.judged else "answers nothing: not a pass"
    return (
        f"<li class='chip {'good' if met else 'bad'}' data-subject='{escape(subject.name)}'>"
        f"<b>{escape(subject.name)}</b> {escape(subject.version)}<br><span>{'✓' if met else '✗'} {word}: "
        f"{escape(sentence(subject))} · "
        f"{share(total)} right · {total.cases:,} cases · {total.unsupported:,} unsupported</span></li>"
    )


def _filters(result: Result) -> str:
    plan = result.plan
    selects = [
        ("subject", "subject", list(result.names())),
        ("operator", "operator", list(plan.operators)),
        ("mode", "mode", list(plan.modes)),
        ("dtype", "element type", list(plan.dtypes)),
        ("aspect", "aspect", list(ASPECTS)),
        ("severity", "class", list(SEVERITIES)),
    ]
    parts = []
    for key, label, values in selects:
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        parts.append(f"<label>{label}<select id='filter-{key}'><option value=''>all</option>{options}</select></label>")
    parts.append("<label>text<input id='filter-text' type='search' placeholder='in findings'></label>")
    parts.append("<button id='filter-clear' type='button'>clear</button>")
    return f"<nav class='filters' aria-label='filters'>{''.join(parts)}</nav>"


def _comparison(result: Result) -> str:
    """Operators and modes by subjects; the rows that no subject supports are folded."""
    heads = "".join(f"<th scope='col' data-subject='{escape(s.name)}'>{escape(s.name)}</th>" for s in result.subjects)
    head = f"<thead><tr><th scope='col'>operator</th>{heads}</tr></thead>"
    rows: dict[bool, list[str]] = {True: [], False: []}
    for operator in result.plan.operators:
        for mode in result.plan.modes:
            cells = [(s.name, s.summary.select(operator, mode)) for s in result.subjects]
            shown = "".join(f"<td data-subject='{escape(name)}'>{_compared(cell)}</td>" for name, cell in cells)
            rows[any(cell.elements for _, cell in cells)].append(
                f"<tr data-operator='{operator}' data-mode='{mode}'>"
                f"<th scope='row'>{operator} <small>{mode}</small></th>{shown}</tr>"
            )
    folded = ""
    if rows[False]:
        table = f"<table class='compare'>{head}<tbody>{''.join(rows[False])}</tbody></table>"
        folded = f"<details><summary>Supported by no subject</summary><div class='scroll'>{table}</div></details>"
    return (
        "<section><h2>Side by side</h2><p>Share of elements that are correctly rounded, and the largest rounding error "
        f"in ulps.</p><div class='scroll'><table class='compare'>{head}<tbody>{''.join(rows[True])}</tbody></table>"
        f"</div>{folded}</section>"
    )


def _compared(cell: Cell) -> str:
    if not cell.elements:
        return "<span class='none'>not supported</span>" if cell.unsupported else "<span class='none'>–</span>"
    kind = "right" if cell.correct == cell.elements else "wrong"
    worst = f" <small>{ulps(cell.worst)} {'ulp' if cell.worst == 1 else 'ulps'}</small>" if cell.worst else ""
    return f"<span class='{kind}'>{share(cell)}</span>{worst}"


def _rules(result: Result) -> str:
    """Which tie and NaN rules were seen, for the operators that have any."""
    rows = []
    for operator in result.plan.operators:
        for mode in result.plan.modes:
            cells = [subject.summary.select(operator, mode) for subject in result.subjects]
            if not any(cell.rules for cell in cells):
                continue
            shown = "".join(
                f"<td data-subject='{escape(s.name)}'>{escape(_seen(cell))}</td>"
                for s, cell in zip(result.subjects, cells, strict=True)
            )
            rows.append(
                f"<tr data-operator='{operator}' data-mode='{mode}'>"
                f"<th scope='row'>{operator} <small>{mode}</small></th>{shown}</tr>"
            )
    if not rows:
        return ""
    heads = "".join(f"<th scope='col' data-subject='{escape(s.name)}'>{escape(s.name)}</th>" for s in result.subjects)
    return (
        "<section><h2>Rules</h2><p>Which of equal maxima wins, and what a NaN does, as the answers show it; the "
        "number of cases in brackets.</p><div class='scroll'><table><thead><tr><th scope='col'>operator</th>"
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _coverage(result: Result) -> str:
    """How many pairs of option values the drawn cases have met, by operator and spatial rank."""
    if not any(item.covered for item in result.coverage):  # the curated cases come first and are not drawn
        return ""
    ranks = sorted({item.rank for item in result.coverage})
    rows = []
    for operator in dict.fromkeys(item.operator for item in result.coverage):
        met = {
            item.rank: f"{item.covered:,} of {item.possible:,}" for item in result.coverage if item.operator == operator
        }
        cells = "".join(f"<td>{met.get(rank, '–')}</td>" for rank in ranks)
        rows.append(f"<tr data-operator='{operator}'><th scope='row'>{operator}</th>{cells}</tr>")
    if not rows:
        return ""
    heads = "".join(f"<th scope='col'>{rank}-D</th>" for rank in ranks)
    return (
        "<section><h2>Pairs of options</h2><p>Pairs of option values (a kind of padding with a kind of stride, "
        "a long axis with a memory layout, …) that met in the drawn cases, of all there are.</p><div class='scroll'>"
        f"<table><thead><tr><th scope='col'>operator</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></section>"
    )


def _seen(cell: Cell) -> str:
    parts = []
    for rule, words in (("ties", "ties"), ("nan", "NaN")):
        seen = sorted(cell.rules.get(rule, {}).items(), key=lambda item: (-item[1], item[0]))
        if seen:
            parts.append(f"{words}: " + ", ".join(f"{name} ({count})" for name, count in seen))
    return "; ".join(parts) or "–"


def _pictures() -> str:
    return (
        "<section><h2>Where it goes wrong</h2><p>Share of the cases that fail, in per cent of those that test the "
        "aspect. Empty cells were not tested.</p><div id='heat' class='grid'></div></section>"
        "<section><h2>How far off</h2><p>Elements by error in ulps, on a logarithmic scale; the bar at 0 is what is "
        "correctly rounded.</p><div id='legend' class='legend'></div><div id='histograms' class='grid small'></div>"
        "</section>"
    )


def _findings(result: Result, subject: SubjectResult) -> str:
    found = subject.findings()
    if not found:
        body = "<p>Nothing was found to be wrong.</p>"
    else:
        body = "".join(_finding(subject, operator, finding) for operator, finding in found)
    return (
        f"<section class='findings' data-subject='{escape(subject.name)}'><h2>{escape(subject.name)}: findings "
        f"<small class='count'></small></h2>{body}</section>"
    )


def _finding(subject: SubjectResult, operator: str, finding: Finding) -> str:
    shown = next(
        (r for r in subject.reproducers if (r.operator, r.aspect, r.name) == (operator, finding.aspect, finding.name)),
        None,
    )
    modes, dtypes = _spread(subject, operator, finding)
    kind = severity(finding.aspect, finding.name)
    times = "once" if finding.count == 1 else f"{finding.count:,} times"
    where = f"{', '.join(modes)} · {', '.join(dtypes)}"
    attributes = (
        f"data-operator='{operator}' data-aspect='{finding.aspect}' data-mode='{' '.join(modes)}' "
        f"data-dtype='{' '.join(dtypes)}' data-severity='{kind}'"
    )
    body = f"<p>{escape(where)}<br>smallest case <code>{escape(finding.case)}</code></p>"
    if finding.message:
        body += f"<p>{escape(finding.message)}</p>"
    if shown is not None:
        if shown.got and shown.want:
            answers = f"<dt>got</dt><dd>{escape(shown.got)}</dd><dt>want</dt><dd>{escape(shown.want)}</dd>"
            body += f"<dl class='answers'>{answers}</dl>"
        body += f"<button class='copy' type='button'>copy</button><pre><code>{escape(shown.script)}</code></pre>"
    return (
        f"<details class='finding' {attributes}><summary><span class='tag {kind}'>{kind}</span> "
        f"<span class='tag'>{finding.aspect}</span> <b>{operator}</b> "
        f"{escape(finding.name)} <small>{times}{worst_error(finding)}</small></summary>{body}</details>"
    )


def _spread(subject: SubjectResult, operator: str, finding: Finding) -> tuple[list[str], list[str]]:
    """The modes and element types in which a finding was made."""
    key = f"{finding.aspect}: {finding.name}"
    cells = [(m, d) for (o, m, d), cell in subject.summary.cells.items() if o == operator and key in cell.findings]
    return list(dict.fromkeys(m for m, _ in cells)), list(dict.fromkeys(d for _, d in cells))


def _unsupported(subject: SubjectResult) -> str:
    rows = []
    for operator in subject.summary.operators():
        reasons = subject.summary.select(operator).reasons
        rows += [
            f"<tr data-operator='{operator}'><td>{operator}</td><td>{count:,}</td><td>{escape(text)}</td></tr>"
            for text, count in sorted(reasons.items(), key=lambda item: -item[1])
        ]
    if not rows:
        return ""
    return (
        f"<section data-subject='{escape(subject.name)}'><details><summary><h2>{escape(subject.name)}: not supported"
        "</h2></summary><div class='scroll'><table><thead><tr><th>operator</th><th>cases</th><th>in its own words</th>"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details></section>"
    )


def _footer(result: Result) -> str:
    meaning = "".join(f"<dt>{aspect}</dt><dd>{escape(text)}</dd>" for aspect, text in ASPECTS.items())
    classes = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in SEVERITIES.items())
    return (
        f"<footer><h2>Classes</h2><dl>{classes}</dl><h2>Aspects</h2><dl>{meaning}</dl>"
        f"<p>The check took {result.seconds:.1f} s.</p></footer>"
    )
