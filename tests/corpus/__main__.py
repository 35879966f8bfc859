"""python -m tests.corpus [--record]: compare every digest with the recorded one, or record them."""

from __future__ import annotations

import json
import sys

from halfulp import _core
from tests.corpus.cases import cases
from tests.corpus.digests import RECORD, computed, differences, recorded


def main() -> None:
    """Exit with 1 and the differences if there are any."""
    every = list(cases())
    if sys.argv[1:] == ["--record"]:
        lines = [f"{json.dumps(case.name)}: {json.dumps(computed(case), separators=(',', ':'))}" for case in every]
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"recorded {len(every)} cases with {_core.get_isa()}")
        return
    if sys.argv[1:]:
        sys.exit(f"usage: python -m tests.corpus [--record], not {' '.join(sys.argv[1:])}")
    found = differences(every, recorded())
    if found:
        sys.exit("\n".join([*found, f"{len(found)} outputs differ with {_core.get_isa()}"]))
    print(f"{len(every)} cases have their recorded bits with {_core.get_isa()}")


if __name__ == "__main__":
    main()
