"""The functional forms: the names, argument names and defaults of ``torch.nn.functional``, on NumPy arrays."""

from halfulp.functional.adaptive_avg_pool import (
    adaptive_avg_pool,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from halfulp.functional.adaptive_max_pool import (
    adaptive_max_pool,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from halfulp.functional.avg_pool import avg_pool, avg_pool1d, avg_pool2d, avg_pool3d
from halfulp.functional.conv import conv, conv1d, conv2d, conv3d
from halfulp.functional.conv_transpose import conv_transpose, conv_transpose1d, conv_transpose2d, conv_transpose3d
from halfulp.functional.global_pool import (
    global_avg_pool,
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from halfulp.functional.max_pool import max_pool, max_pool1d, max_pool2d, max_pool3d
from halfulp.functional.smooth_max_pool import (
    smooth_max_pool,
    smooth_max_pool1d,
    smooth_max_pool2d,
    smooth_max_pool3d,
)

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "global_avg_pool",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "smooth_max_pool",
    "smooth_max_pool1d",
    "smooth_max_pool2d",
    "smooth_max_pool3d",
]
