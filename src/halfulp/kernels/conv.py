"""Convolution in the compiled core."""

from __future__ import annotations

from halfulp.kernels._convolution import forward, jvp, vjp
from halfulp.kernels._registry import register
from halfulp.records import Conv

register(Conv, forward=forward, jvp=jvp, vjp=vjp)
