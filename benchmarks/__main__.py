"""python -m benchmarks [NAME [--isa baseline|avx2|avx512|neon] [options]]: run one of the benchmarks, or all of them.

--isa forces an instruction set, on ours and on the peers that can be told (``benchmarks/older.py``).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.older import ISA_NAMES, allow_only


def main() -> None:
    """Hand the options to the benchmark that is named; without a name run every one as it is."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "def main(" in path.read_text())
    names.remove("__main__")
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--isa", choices=list(ISA_NAMES))
    options, words = parser.parse_known_args(sys.argv[1:])
    if options.isa is not None:
        allow_only(options.isa)
    if not words:
        for name in names:
            if name != "publish":  # which measures pooling once more, and writes files
                importlib.import_module(f"benchmarks.{name}").main([])
    elif words[0] in names:
        importlib.import_module(f"benchmarks.{words[0]}").main(words[1:])
    else:
        sys.exit(
            f"usage: python -m benchmarks [{{{','.join(names)}}} [--isa ISA] [options]]; without a name, all of them"
        )


if __name__ == "__main__":
    main()
