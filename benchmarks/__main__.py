"""python -m benchmarks NAME [options]: run one of the benchmarks in this folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "def main(" in path.read_text())
    names.remove("__main__")
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python -m benchmarks {{{','.join(names)}}} [options]")
    importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
