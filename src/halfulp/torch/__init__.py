"""halfulp for PyTorch: functions of ``torch.nn.functional`` and modules of ``torch.nn`` on CPU tensors.

The names, signatures, defaults and error conditions are PyTorch's. Every result is correctly rounded.

>>> import torch
>>> import halfulp.torch as ht
>>> ht.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
tensor([[[ 5.,  7.],
         [13., 15.]]])
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("halfulp.torch needs PyTorch: install it with `pip install 'halfulp[torch]'`") from error

from halfulp.torch import distributed, optim
from halfulp.torch._bridge import functions
from halfulp.torch._errors import TorchDTypeError, TorchPolicyError, TorchShapeError
from halfulp.torch._generated import *
from halfulp.torch._generated import __all__ as _names
from halfulp.torch._standard import register as _register_standard
from halfulp.torch.accumulating import pieces
from halfulp.torch.dropping import dropout, dropout1d, dropout2d, dropout3d, dropout_step
from halfulp.torch.embedding_rows import embedding
from halfulp.torch.modules_activation import *
from halfulp.torch.modules_activation import __all__ as _activations
from halfulp.torch.modules_conv import *
from halfulp.torch.modules_conv import __all__ as _convolutions
from halfulp.torch.modules_layer import *
from halfulp.torch.modules_layer import __all__ as _layers
from halfulp.torch.modules_pool import *
from halfulp.torch.modules_pool import __all__ as _modules
from halfulp.torch.replacing import Replacement, patched, replace
from halfulp.torch.unpooling import *
from halfulp.torch.unpooling import __all__ as _unpooling

__all__ = [
    "Replacement",
    "TorchDTypeError",
    "TorchPolicyError",
    "TorchShapeError",
    "distributed",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "dropout_step",
    "embedding",
    "functions",
    "optim",
    "patched",
    "pieces",
    "replace",
    *_activations,
    *_convolutions,
    *_layers,
    *_modules,
    *_names,
    *_unpooling,
]

_register_standard()
for _name in __all__:
    if _name in (*_names, "embedding") or (
        _name.islower() and _name.endswith(("1d", "2d", "3d", "fold"))
    ):  # the functions, for torch.fx.symbolic_trace
        _torch.fx.wrap(_name)
