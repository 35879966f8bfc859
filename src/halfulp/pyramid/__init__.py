"""Pyramids of images of any size: every level is the correctly rounded pooling of the base, which is read once.

The command ``halfulp pyramid`` is made of these: :func:`write` makes or finishes a pyramid, :func:`verify` compares the
levels of any pyramid with its base.
"""

from __future__ import annotations

from halfulp.pyramid._api import verify, write
from halfulp.pyramid._verify import LevelReport

__all__ = ["LevelReport", "verify", "write"]
