"""An older processor on a newer one: ours and the peers use no later instruction set than the one that is named.

PyTorch (its own kernels, oneDNN, MKL and what torch.compile writes) and JAX can be told before they are loaded. ONNX
Runtime and OpenVINO cannot: they use all that the machine has, so that beside them ours has a handicap.
"""

from __future__ import annotations

import importlib.util
import os

ISA_NAMES = {"baseline": "SSE2", "avx2": "AVX2", "avx512": "AVX-512", "neon": "NEON"}
PEERS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
    "baseline": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
    },
}
"""Environment variables of PyTorch, oneDNN, MKL and XLA; SSE2 alone is less than any of them can be told."""


def allow_only(isa: str) -> None:
    """Call it before anything else is imported. ``benchmarks`` does so for --isa."""
    os.environ["HALFULP_ISA"] = isa
    os.environ.update(PEERS.get(isa, {}))
    if isa in PEERS and importlib.util.find_spec("torch") is not None:
        import torch

        x = torch.ones(1, 1, 3, 3)
        torch.nn.functional.conv2d(x, x)  # PyTorch's oneDNN reads its variable
        del os.environ["ONEDNN_MAX_CPU_ISA"]  # with which OpenVINO's plugin does not load
