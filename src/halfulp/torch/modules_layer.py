"""Linear layers, normalisations, softmax, losses, embeddings, upsampling and dropout as modules.

A class derives from its PyTorch namesake, so constructors, parameters, state dicts, ``repr`` and ``isinstance`` stay as
they are. Its ``forward`` is PyTorch's own, with our function in place of PyTorch's.
"""

from typing import Any

from torch import Tensor, nn

from halfulp.torch._exact_class import Layer
from halfulp.torch.embedding_rows import check_known

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Softmax",
    "Softmax2d",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Linear(Layer, nn.Linear):
    """``torch.nn.Linear`` by :func:`halfulp.torch.linear`.

    >>> import torch
    >>> layer = Linear(3, 1, bias=False)
    >>> layer.load_state_dict({"weight": torch.ones(1, 3)})
    <All keys matched successfully>
    >>> layer(torch.tensor([1e8, 1.0, -1e8]))
    tensor([1.], grad_fn=<EagerBackward>)
    """


class BatchNorm1d(Layer, nn.BatchNorm1d):
    """``torch.nn.BatchNorm1d`` by :func:`halfulp.torch.batch_norm`, running statistics included.

    >>> import torch
    >>> BatchNorm1d(1, eps=0.0, affine=False)(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.],
            [ 1.]])
    """


class BatchNorm2d(Layer, nn.BatchNorm2d):
    """``torch.nn.BatchNorm2d`` by :func:`halfulp.torch.batch_norm`, running statistics included.

    >>> import torch
    >>> BatchNorm2d(1, eps=0.0, affine=False)(torch.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.,  1.]]]])
    """


class BatchNorm3d(Layer, nn.BatchNorm3d):
    """``torch.nn.BatchNorm3d`` by :func:`halfulp.torch.batch_norm`, running statistics included.

    >>> import torch
    >>> BatchNorm3d(1, eps=0.0, affine=False)(torch.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.,  1.]]]]])
    """


class InstanceNorm1d(Layer, nn.InstanceNorm1d):
    """``torch.nn.InstanceNorm1d`` by :func:`halfulp.torch.instance_norm`.

    >>> import torch
    >>> InstanceNorm1d(1, eps=0.0)(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.,  1.]])
    """


class InstanceNorm2d(Layer, nn.InstanceNorm2d):
    """``torch.nn.InstanceNorm2d`` by :func:`halfulp.torch.instance_norm`.

    >>> import torch
    >>> InstanceNorm2d(1, eps=0.0)(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.,  1.]]])
    """


class InstanceNorm3d(Layer, nn.InstanceNorm3d):
    """``torch.nn.InstanceNorm3d`` by :func:`halfulp.torch.instance_norm`.

    >>> import torch
    >>> InstanceNorm3d(1, eps=0.0)(torch.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.,  1.]]]])
    """


class LayerNorm(Layer, nn.LayerNorm):
    """``torch.nn.LayerNorm`` by :func:`halfulp.torch.layer_norm`.

    >>> import torch
    >>> LayerNorm(2, eps=0.0, elementwise_affine=False)(torch.tensor([[1.0, 3.0], [2.0, 10.0]]))
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """


class GroupNorm(Layer, nn.GroupNorm):
    """``torch.nn.GroupNorm`` by :func:`halfulp.torch.group_norm`.

    >>> import torch
    >>> GroupNorm(1, 2, eps=0.0, affine=False)(torch.tensor([[[1.0], [3.0]]]))
    tensor([[[-1.],
             [ 1.]]])
    """


class Softmax(Layer, nn.Softmax):
    """``torch.nn.Softmax`` by :func:`halfulp.torch.softmax`.

    >>> import torch
    >>> Softmax(-1)(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """


class Softmax2d(Layer, nn.Softmax2d):
    """``torch.nn.Softmax2d``, over the channels, by :func:`halfulp.torch.softmax`.

    >>> import torch
    >>> Softmax2d()(torch.zeros(2, 1, 1))
    tensor([[[0.5000]],
    <BLANKLINE>
            [[0.5000]]])
    """


class LogSoftmax(Layer, nn.LogSoftmax):
    """``torch.nn.LogSoftmax`` by :func:`halfulp.torch.log_softmax`.

    >>> import torch
    >>> LogSoftmax(-1)(torch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """


class CrossEntropyLoss(Layer, nn.CrossEntropyLoss):
    """``torch.nn.CrossEntropyLoss`` by :func:`halfulp.torch.cross_entropy`.

    >>> import torch
    >>> CrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.6931)
    """


class MSELoss(Layer, nn.MSELoss):
    """``torch.nn.MSELoss`` by :func:`halfulp.torch.mse_loss`.

    >>> import torch
    >>> MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(2.5000)
    """


class Embedding(Layer, nn.Embedding):
    """``torch.nn.Embedding`` by :func:`halfulp.torch.embedding`: the gradient of a row is rounded once.

    ``sparse`` and ``max_norm`` are PyTorch's alone: refused.

    >>> import torch
    >>> layer = Embedding.from_pretrained(torch.zeros(2, 1), freeze=False)
    >>> layer(torch.tensor([1, 1, 1])).backward(torch.tensor([[1e8], [1.0], [-1e8]]))
    >>> layer.weight.grad[1].item()
    1.0
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_known(max_norm, sparse)
        settings = (padding_idx, None, norm_type, scale_grad_by_freq, False, _weight, _freeze, device, dtype)
        super().__init__(num_embeddings, embedding_dim, *settings)


class Upsample(Layer, nn.Upsample):
    """``torch.nn.Upsample`` by :func:`halfulp.torch.interpolate`.

    >>> import torch
    >>> Upsample(4, mode="linear")(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """


class UpsamplingNearest2d(Layer, nn.UpsamplingNearest2d):
    """``torch.nn.UpsamplingNearest2d`` by :func:`halfulp.torch.interpolate`.

    >>> import torch
    >>> UpsamplingNearest2d(scale_factor=2)(torch.ones(1, 1, 1, 1))
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """


class UpsamplingBilinear2d(Layer, nn.UpsamplingBilinear2d):
    """``torch.nn.UpsamplingBilinear2d`` by :func:`halfulp.torch.interpolate`.

    >>> import torch
    >>> UpsamplingBilinear2d((1, 3))(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """


class Dropout(Layer, nn.Dropout):
    """``torch.nn.Dropout`` by :func:`halfulp.torch.dropout`: a mask that does not depend on threads or layout.

    >>> import torch
    >>> Dropout(1.0)(torch.ones(3))
    tensor([0., 0., 0.])
    """


class Dropout1d(Layer, nn.Dropout1d):
    """``torch.nn.Dropout1d`` by :func:`halfulp.torch.dropout1d`.

    >>> import torch
    >>> Dropout1d(1.0)(torch.ones(1, 3))
    tensor([[0., 0., 0.]])
    """


class Dropout2d(Layer, nn.Dropout2d):
    """``torch.nn.Dropout2d`` by :func:`halfulp.torch.dropout2d`.

    >>> import torch
    >>> Dropout2d(1.0)(torch.ones(1, 1, 3))
    tensor([[[0., 0., 0.]]])
    """


class Dropout3d(Layer, nn.Dropout3d):
    """``torch.nn.Dropout3d`` by :func:`halfulp.torch.dropout3d`.

    >>> import torch
    >>> Dropout3d(1.0)(torch.ones(1, 1, 1, 3))
    tensor([[[[0., 0., 0.]]]])
    """
