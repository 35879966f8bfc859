"""Processes, journals and clusters: a crash costs one case, and a killed campaign goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from halfulp.conformance import Plan, Result, check
from halfulp.conformance.journal import JournalError
from halfulp.conformance.report.data import to_json

SMALL = Plan(operators=("max_pool",), modes=("forward",), dtypes=("float32",), cases=48, probes=False)


def cells(result: Result) -> Any:
    return [subject["cells"] for subject in to_json(result)["subjects"]]


def test_each_crash_hang_exit_and_exhausted_memory_costs_one_case(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    result = check(["defects:Fragile"], SMALL, jobs=2, case_timeout=4.0, journal=journal)
    (subject,) = result.subjects
    cell = subject.summary.total()
    named = {finding.name: finding.count for _, finding in subject.findings()}
    assert named == {
        "crashes (SIGSEGV)": 1,
        "hangs": 1,
        "out of memory": 1,
        "ends the process with exit code 3": 1,
    }
    assert (cell.cases, cell.crashed, cell.passed) == (48, 4, 44)
    assert not result.passed
    again = check(["defects:Fragile"], SMALL, jobs=1, case_timeout=4.0, journal=journal)  # nothing is left to do
    assert cells(again) == cells(result)


def test_processes_find_what_one_process_finds() -> None:
    plan = Plan(operators=("conv", "global_max_pool"), dtypes=("float16", "float64"), cases=16)
    assert cells(check(["numpy-naive"], plan, jobs=2, reproducers=False)) == cells(
        check(["numpy-naive"], plan, reproducers=False)
    )


def test_the_seed_decides_the_cases() -> None:
    plan = Plan(operators=("avg_pool",), modes=("forward",), dtypes=("float32",), cases=140, probes=False)
    first, again, other = (
        cells(check(["numpy-naive"], p, reproducers=False)) for p in (plan, plan, Plan(**{**vars(plan), "seed": 1}))
    )
    assert first == again
    assert first != other


COMMAND = [sys.executable, "-m", "halfulp", "check", "numpy-naive", "--op", "avg_pool,conv", "--cases", "64"]
COMMAND += ["--dtype", "float32,float64"]


def test_a_killed_campaign_resumes_from_its_journal(tmp_path: Path) -> None:
    journal, report, whole = tmp_path / "journal", tmp_path / "resumed.json", tmp_path / "whole.json"
    command = [*COMMAND, "--jobs", "2", "--journal", str(journal), "--quiet", "--json", str(report)]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = journal.read_bytes()
    assert 3 <= before.count(b"\n") < 13  # killed in the middle
    assert not report.exists()
    journal.write_bytes(before + b'{"unit": "conv/float32/cut o')  # a line that the kill cut off
    subprocess.run(command, check=False, timeout=120)
    after = journal.read_bytes()
    assert after.startswith(before)
    lines = [json.loads(line) for line in after.splitlines()[1:]]
    keys = [line["unit"] for line in lines]
    assert len(keys) == len(set(keys))
    subprocess.run([*COMMAND, "--jobs", "0", "--quiet", "--json", str(whole)], check=False, timeout=120)
    resumed, uninterrupted = (json.loads(path.read_text())["subjects"] for path in (report, whole))
    assert resumed[0]["cells"] == uninterrupted[0]["cells"]


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    psutil = __import__("psutil")
    journal = tmp_path / "journal"
    process = subprocess.Popen([*COMMAND, "--jobs", "2", "--journal", str(journal), "--quiet"])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not journal.exists():
        time.sleep(0.02)
    children = psutil.Process(process.pid).children()
    assert children
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    gone, alive = psutil.wait_procs(children, timeout=30)
    assert len(gone) == len(children)
    assert not alive


def test_a_journal_of_another_campaign_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    plan = Plan(operators=("max_pool",), modes=("forward",), dtypes=("int8",), cases=4, probes=False)
    check(["halfulp"], plan, journal=journal)
    with pytest.raises(JournalError, match="is the journal of another campaign"):
        check(["halfulp"], Plan(**{**vars(plan), "seed": 5}), journal=journal)


def test_a_time_limit_stops_the_campaign_and_the_report_says_so() -> None:
    result = check(["halfulp"], Plan(cases=64), time_limit=0.5, reproducers=False)
    assert not result.finished
    assert 0 < result.subjects[0].summary.total().cases < 64 * 120


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_finds_what_one_process_finds() -> None:
    from distributed import LocalCluster

    plan = Plan(operators=("avg_pool",), dtypes=("float32",), cases=16, probes=False)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        result = check(["numpy-naive"], plan, scheduler=cluster.scheduler_address)
    assert cells(result) == cells(check(["numpy-naive"], plan))
    assert [r.script for r in result.subjects[0].reproducers]


TINY = Plan(operators=("max_pool",), modes=("forward",), dtypes=("int8",), cases=4, probes=False)


@pytest.mark.parametrize(
    "content",
    [b"my only copy", b"my only copy\n", b"{}\n", b"[1]\n", b'{"a": 1', b"\x00\xff\n", b"\n\n", b"1\n2\n", b"[" * 9999],
)
def test_a_file_that_is_no_journal_is_refused_and_kept(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    with pytest.raises(
        JournalError, match=r"thesis.txt is not a journal and would be overwritten; choose another name"
    ):
        check(["halfulp"], TINY, journal=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("length", [0, 1, 30])
def test_a_journal_that_was_cut_off_in_its_first_line_begins_again(length: int, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = check(["halfulp"], TINY, journal=path)
    path.write_bytes(path.read_bytes()[:length])
    assert cells(check(["halfulp"], TINY, journal=path)) == cells(first)


def test_a_journal_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory"):
        check(["halfulp"], TINY, journal=tmp_path / "nowhere" / "journal")
    with pytest.raises(JournalError, match="Is a directory"):
        check(["halfulp"], TINY, journal=tmp_path)


def forged(line: Any, **changes: Any) -> bytes:
    """A unit's line with another number in its cell."""
    cell = {**line["results"]["halfulp"][0], **changes}
    return json.dumps({**line, "results": {"halfulp": [cell]}}).encode()


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda line: b"not json", "it is not a line that a campaign writes"),
        (lambda line: b"", "it is not a line that a campaign writes"),
        (lambda line: b"7", "it is not a line that a campaign writes"),
        (lambda line: b"{}", "it has neither a unit with its results nor a crash"),
        (lambda line: json.dumps({"unit": "x", "results": {}}).encode(), "the campaign has no unit 'x'"),
        (lambda line: json.dumps({**line, "results": {}}).encode(), "the results are not those of this campaign"),
        (lambda line: json.dumps({**line, "results": {"halfulp": []}}).encode(), "has 0 cases instead of 4"),
        (lambda line: json.dumps({**line, "results": {"halfulp": [{}]}}).encode(), "it is not a line that"),
        (lambda line: forged(line, cases=9, passed=9), "has 9 cases instead of 4"),
        (lambda line: forged(line, passed=9), "do not add up"),
        (lambda line: forged(line, passed="4"), "do not add up"),
        (lambda line: forged(line, failed=-1, passed=5), "do not add up"),
        (lambda line: forged(line, passed=0, failed=4), "do not add up"),
        (lambda line: forged(line, histogram=[1]), "do not add up"),
        (lambda line: forged(line, dtype="float32"), "is not part of the unit"),
        (lambda line: forged(line, surprise=1), "it is not a line that a campaign writes"),
        (lambda line: json.dumps({"crash": {"subject": "halfulp"}}).encode(), "it has neither"),
        (
            lambda line: json.dumps({"crash": {"subject": "torch", "case": "a", "reason": "b"}}).encode(),
            "the campaign has no subject 'torch'",
        ),
        (
            lambda line: json.dumps(
                {"crash": {"subject": "halfulp", "case": "max_pool/forward/int8/99.0", "reason": "b"}}
            ).encode(),
            "the campaign has no case 'max_pool/forward/int8/99.0' left to do here",
        ),
        (lambda line: json.dumps(line).encode() + b"\n" + json.dumps(line).encode(), "line 3: the unit .* comes twice"),
    ],
)
def test_a_line_that_no_campaign_wrote_is_refused_by_its_number(forge: Any, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    check(["halfulp"], TINY, journal=path)
    header, line = path.read_bytes().splitlines()
    path.write_bytes(header + b"\n" + forge(json.loads(line)) + b"\n")
    before = path.read_bytes()
    with pytest.raises(
        JournalError, match=rf"line [23]: .*{reason}.*correct the line" if "line 3" not in reason else reason
    ):
        check(["halfulp"], TINY, journal=path)
    assert path.read_bytes() == before
