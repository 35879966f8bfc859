"""The README's two commands are the ones that the gate runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commands() -> list[str]:
    return re.findall(r"```console\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_gate_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"^test_command='(.*)'$", script, re.MULTILINE)
    assert quoted in commands()
    assert 'bash -c "$test_command"' in script


def test_the_readme_runs_the_main_job() -> None:
    assert any(command.endswith("halfulp check") for command in commands())
