"""What :func:`halfulp.torch.replace` did, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from halfulp.torch._calls import Calls, Unseen


@dataclass(frozen=True)
class Replacement:
    """What :func:`replace` did: the model, the layers it swapped, and those it left although they look alike.

    With ``everything=True`` also the layers that need no replacement, and the calls inside ``forward`` that were seen:
    they are known after the model has run. ``not_covered`` lists calls whose bits may change.

    >>> import torch
    >>> from halfulp.torch import replace
    >>> report = replace(torch.nn.Sequential(torch.nn.AvgPool1d(2)))
    >>> report.swapped
    {'0': 'torch.nn.AvgPool1d -> halfulp.torch.AvgPool1d'}
    """

    model: nn.Module
    swapped: dict[str, str] = field(default_factory=dict)
    """Layer name -> its PyTorch class and ours."""
    left: dict[str, str] = field(default_factory=dict)
    """Layer name -> why it was left."""
    exact: dict[str, str] = field(default_factory=dict)
    """Layer name -> its class: layers whose bits are fixed as they are."""
    calls: Calls = field(default_factory=dict)
    """Function called inside ``forward`` -> ``"ours"`` or why it is not covered; exact ones are not listed."""

    @property
    def not_covered(self) -> dict[str, str]:
        """Layers and calls whose bits may change with threads, batch, layout or machine."""
        return self.left | {name: why for name, why in self.calls.items() if why != "ours"}

    def run(self, *inputs: Any, **keywords: Any) -> Replacement:
        """Run the model once without gradients, for the calls inside ``forward``; the model's state is put back."""
        kept = {name: value.clone() for name, value in self.model.state_dict().items()}
        with torch.no_grad(), Unseen(self.calls):
            self.model(*inputs, **keywords)
        self.model.load_state_dict(kept)
        return self

    def __repr__(self) -> str:
        lines = [f"replaced {len(self.swapped)} layer{'' if len(self.swapped) == 1 else 's'}"]
        lines += _rows(self.swapped)
        if not self.exact and not self.calls:
            return "\n".join(lines + _rows(self.left))
        if self.exact:
            lines += ["exact already", *_rows(self.exact)]
        replaced = sorted(name for name, why in self.calls.items() if why == "ours")
        if replaced:
            lines += ["calls replaced", f"  {', '.join(replaced)}"]
        missing = self.not_covered
        lines += ["not covered", *_rows(missing)] if missing else ["not covered: nothing seen"]
        return "\n".join(lines)


def _rows(names: dict[str, str]) -> list[str]:
    width = max((len(name) for name in names), default=0)
    return [f"  {name:<{width}}  {what}" for name, what in names.items()]
