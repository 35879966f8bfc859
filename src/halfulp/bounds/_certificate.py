"""Certificates: the slopes and intermediate bounds of a proof as dyadic numbers, in JSON with hexadecimal floats."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from halfulp.errors import CertificateError

FORMAT = "halfulp bounds certificate"


class Certificate:
    """A proof that can be saved, sent and replayed with exact arithmetic by :func:`halfulp.bounds.replay`."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    @classmethod
    def load(cls, path: Any) -> Certificate:
        """Read a certificate from a file."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CertificateError("certificate", f"path={str(path)!r}", f"cannot be read: {error}", "V7") from error
        if not isinstance(content, dict):
            raise CertificateError("certificate", f"path={str(path)!r}", "must hold one JSON object", "V7")
        return cls(content)

    def save(self, path: Any) -> None:
        """Write the certificate to a file."""
        Path(path).write_text(json.dumps(self.content, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        leaves = len(self.content.get("leaves", ()))
        return f"Certificate({self.content.get('arithmetic')}; {leaves} leaves)"


def sealed(content: dict[str, Any]) -> Certificate:
    """A certificate with the checksum of its content."""
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return Certificate({**content, "checksum": hashlib.sha256(text.encode()).hexdigest()})
