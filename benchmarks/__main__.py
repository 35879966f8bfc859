"""python -m benchmarks [NAME [options]]: run one of the benchmarks in this folder, or all of them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Hand the options to the benchmark that is named; without a name run every one as it is."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "def main(" in path.read_text())
    names.remove("__main__")
    if len(sys.argv) == 1:
        for name in names:
            if name != "publish":  # which measures pooling once more, and writes files
                importlib.import_module(f"benchmarks.{name}").main([])
    elif sys.argv[1] in names:
        importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    else:
        sys.exit(f"usage: python -m benchmarks [{{{','.join(names)}}} [options]]; without a name, all of them")


if __name__ == "__main__":
    main()
