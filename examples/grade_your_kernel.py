"""Grade a kernel of one's own against the exact answer.

    python examples/grade_your_kernel.py

``backend`` is a subject of ``halfulp check``: a function from an operator record and arrays to an array. This one is a
plausible hand-written average pooling that accumulates in the input's own type and forgets that cells beyond the
padding do not count. The check finds both, and prints the smallest input that shows it. The same from the shell:

    halfulp check examples.grade_your_kernel:backend --op avg_pool --mode forward
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import halfulp as hu


def backend(op: Any, x: np.ndarray) -> np.ndarray:
    """Average pooling over the last axes, the way many would write it first."""
    if not isinstance(op, hu.AvgPool) or not op.count_include_pad or op.divisor_override is not None:
        raise TypeError("only plain average pooling")
    axes = op.axes(x.shape[x.ndim - op.ndim :])
    # Enough zeros on the right for a last window that ceil_mode lets hang over the edge.
    widths = [(a.before, a.after + a.extent + a.stride) for a in axes]
    padded = np.pad(x, [(0, 0)] * (x.ndim - op.ndim) + widths)
    total = np.zeros(op.output_shape(x.shape), dtype=x.dtype)
    for offset in np.ndindex(*(a.kernel for a in axes)):
        starts = [o * a.dilation for o, a in zip(offset, axes, strict=True)]
        cut = [slice(s, s + (a.output_size - 1) * a.stride + 1, a.stride) for s, a in zip(starts, axes, strict=True)]
        total += padded[(..., *cut)]
    return total / np.asarray(np.prod([a.kernel for a in axes]), dtype=x.dtype)


def main() -> None:
    """Run the check on this very file, as a user would, and show that it is not fooled."""
    command = [sys.executable, "-m", "halfulp", "check", "grade_your_kernel:backend", "--op", "avg_pool"]
    command += ["--mode", "forward", "--dtype", "float32", "--cases", "300", "--show", "1"]
    result = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    print(result.stdout)
    print(result.stderr, file=sys.stderr)
    assert result.returncode == 1, "the check should have found the two defects"


if __name__ == "__main__":
    main()
