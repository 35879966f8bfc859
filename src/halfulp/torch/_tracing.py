"""What PyTorch's older tracers see of the modules: ``torch.fx`` records their functions, ``torch.jit.script`` refuses.

While it traces, ``torch.fx`` replaces the names that a file declared with ``torch.fx.wrap``. So every file of functions
declares its own, the package declares all, and the modules' forwards look their function up when they run.
"""

import inspect
from types import ModuleType
from typing import Any, NoReturn

from torch import Tensor, nn
from torch._C import DisableTorchFunction as _DisableTorchFunction

from halfulp.errors import PolicyError
from halfulp.torch import _generated
from halfulp.torch._errors import as_torch_error
from halfulp.torch._tensors import own


class Bridged:
    """The base of the bridge's modules."""

    _home: ModuleType = _generated
    _function: str

    def _call(self, *arguments: Any, **keywords: Any) -> Any:
        """The function behind the module, under the name that ``torch.fx`` replaces while it traces."""
        function = getattr(self._home, self._function)
        if own.modes:  # within a replaced model: our functions need no watching
            with _DisableTorchFunction():
                return function(*arguments, **keywords)
        return function(*arguments, **keywords)

    def __prepare_scriptable__(self) -> NoReturn:
        raise as_torch_error(
            PolicyError(
                type(self).__name__,
                "torch.jit.script",
                "TorchScript cannot compile this module; use torch.compile, torch.export, torch.fx or torch.jit.trace",
                "B5",
            )
        )


class Called(Bridged):
    """A module with PyTorch's constructor. The function takes the attributes in ``_arguments`` after the input."""

    _arguments: tuple[str, ...] = ()

    def forward(self, input: Tensor) -> Any:
        """The operator's value."""
        return self._call(input, *[getattr(self, name) for name in self._arguments])


class Kept(Bridged, nn.Module):
    """A module that PyTorch has no class for: it keeps its settings as attributes and shows them."""

    _settings: tuple[str, ...] = ()

    def _keep(self, **settings: Any) -> None:
        super().__init__()
        if settings.get("stride", 0) is None:
            settings["stride"] = settings["kernel_size"]
        for name, value in settings.items():
            setattr(self, name, value)
        self._settings = tuple(settings)

    def forward(self, input: Tensor) -> Any:
        """The operator's value."""
        return self._call(input, **{name: getattr(self, name) for name in self._settings})

    def extra_repr(self) -> str:
        """The settings; keyword-only ones where they are not the default."""
        known = inspect.signature(type(self)).parameters
        usual = {name: p.default for name, p in known.items() if p.kind is p.KEYWORD_ONLY}
        values = {name: getattr(self, name) for name in self._settings}
        return ", ".join(f"{name}={v}" for name, v in values.items() if name not in usual or usual[name] != v)
