"""halfulp for PyTorch: the pooling and convolution functions of ``torch.nn.functional`` on CPU tensors.

Same names, signatures, defaults and error conditions; our speed, and our answers: every result correctly rounded.

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

from halfulp.torch._errors import TorchDTypeError, TorchPolicyError, TorchShapeError
from halfulp.torch.adaptive_avg_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from halfulp.torch.adaptive_max_pool import adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d
from halfulp.torch.avg_pool import avg_pool1d, avg_pool2d, avg_pool3d
from halfulp.torch.conv import conv1d, conv2d, conv3d
from halfulp.torch.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from halfulp.torch.global_pool import (
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from halfulp.torch.max_pool import max_pool1d, max_pool2d, max_pool3d
from halfulp.torch.modules_conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from halfulp.torch.modules_pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool1d,
    GlobalAvgPool2d,
    GlobalAvgPool3d,
    GlobalMaxPool1d,
    GlobalMaxPool2d,
    GlobalMaxPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    SmoothMaxPool1d,
    SmoothMaxPool2d,
    SmoothMaxPool3d,
)
from halfulp.torch.replacing import Replacement, patched, replace
from halfulp.torch.smooth_max_pool import smooth_max_pool1d, smooth_max_pool2d, smooth_max_pool3d

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "GlobalAvgPool1d",
    "GlobalAvgPool2d",
    "GlobalAvgPool3d",
    "GlobalMaxPool1d",
    "GlobalMaxPool2d",
    "GlobalMaxPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Replacement",
    "SmoothMaxPool1d",
    "SmoothMaxPool2d",
    "SmoothMaxPool3d",
    "TorchDTypeError",
    "TorchPolicyError",
    "TorchShapeError",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "patched",
    "replace",
    "smooth_max_pool1d",
    "smooth_max_pool2d",
    "smooth_max_pool3d",
]

for _name in __all__:
    if _name.islower() and _name.endswith(("1d", "2d", "3d")):  # the functions, for torch.fx.symbolic_trace
        _torch.fx.wrap(_name)
