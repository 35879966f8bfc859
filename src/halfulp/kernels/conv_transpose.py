"""Transposed convolution in the compiled core."""

from __future__ import annotations

from halfulp.kernels._convolution import forward, jvp, vjp
from halfulp.kernels._registry import register
from halfulp.records import ConvTranspose

register(ConvTranspose, forward=forward, jvp=jvp, vjp=vjp)
