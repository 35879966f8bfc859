"""Networks with the layers and sizes of their namesakes, for python -m benchmarks models; weights are random."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: type = nn.ReLU
) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class Residual(nn.Module):
    """ResNet-18's block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = conv_norm(outputs, outputs, 3, act=nn.Identity)
        self.down = conv_norm(inputs, outputs, 1, stride, act=nn.Identity) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.down(x))


def headed(features: list[nn.Module], channels: int) -> nn.Module:
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(inputs, outputs, stride))
        inputs = outputs
    return headed(layers, 512)


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for block in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
        for outputs in block:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(True), nn.Linear(4096, 4096), nn.ReLU(True), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class Inverted(nn.Module):
    """MobileNetV3's block."""

    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, excite: bool, act: type, stride: int) -> None:
        super().__init__()
        self.expand = conv_norm(inputs, wide, 1, act=act) if wide != inputs else nn.Identity()
        self.depth = conv_norm(wide, wide, kernel, stride, wide, act=act)
        squeezed = max(8, wide // 4 // 8 * 8)
        self.squeeze = nn.ModuleList([nn.Conv2d(wide, squeezed, 1), nn.Conv2d(squeezed, wide, 1)]) if excite else None
        self.project = conv_norm(wide, outputs, 1, act=nn.Identity)
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        if self.squeeze is not None:
            y = y * F.hardsigmoid(self.squeeze[1](F.relu(self.squeeze[0](F.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y)
        return x + y if self.same else y


def mobilenet_v3_large() -> nn.Module:
    swish, relu = nn.Hardswish, nn.ReLU
    rows = [
        (16, 3, 16, 16, False, relu, 1),
        (16, 3, 64, 24, False, relu, 2),
        (24, 3, 72, 24, False, relu, 1),
        (24, 5, 72, 40, True, relu, 2),
        (40, 5, 120, 40, True, relu, 1),
        (40, 5, 120, 40, True, relu, 1),
        (40, 3, 240, 80, False, swish, 2),
        (80, 3, 200, 80, False, swish, 1),
        (80, 3, 184, 80, False, swish, 1),
        (80, 3, 184, 80, False, swish, 1),
        (80, 3, 480, 112, True, swish, 1),
        (112, 3, 672, 112, True, swish, 1),
        (112, 5, 672, 160, True, swish, 2),
        (160, 5, 960, 160, True, swish, 1),
        (160, 5, 960, 160, True, swish, 1),
    ]
    stem, last = conv_norm(3, 16, 3, 2, act=swish), conv_norm(160, 960, 1, act=swish)
    return headed([stem, *(Inverted(*row) for row in rows), last], 960)


def mobilenet_v3_small() -> nn.Module:
    swish, relu = nn.Hardswish, nn.ReLU
    rows = [
        (16, 3, 16, 16, True, relu, 2),
        (16, 3, 72, 24, False, relu, 2),
        (24, 3, 88, 24, False, relu, 1),
        (24, 5, 96, 40, True, swish, 2),
        (40, 5, 240, 40, True, swish, 1),
        (40, 5, 240, 40, True, swish, 1),
        (40, 5, 120, 48, True, swish, 1),
        (48, 5, 144, 48, True, swish, 1),
        (48, 5, 288, 96, True, swish, 2),
        (96, 5, 576, 96, True, swish, 1),
        (96, 5, 576, 96, True, swish, 1),
    ]
    return headed([conv_norm(3, 16, 3, 2, act=swish), *(Inverted(*row) for row in rows), conv_norm(96, 576, 1)], 576)


class Shuffled(nn.Module):
    """ShuffleNetV2's block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        taken = inputs if stride > 1 else half
        self.stride = stride
        depth = conv_norm(half, half, 3, stride, half, act=nn.Identity)
        self.main = nn.Sequential(conv_norm(taken, half, 1), depth, conv_norm(half, half, 1))
        beside = conv_norm(inputs, inputs, 3, stride, inputs, act=nn.Identity)
        self.side = nn.Sequential(beside, conv_norm(inputs, half, 1)) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        first, second = (x, x) if self.stride > 1 else x.chunk(2, 1)
        y = torch.cat([self.side(first), self.main(second)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for outputs, count in ((116, 4), (232, 8), (464, 4)):
        for i in range(count):
            layers.append(Shuffled(inputs, outputs, 2 if i == 0 else 1))
            inputs = outputs
    return headed([*layers, conv_norm(464, 1024, 1)], 1024)


class Dense(nn.Module):
    """DenseNet's layer: its output is joined to its input."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 32, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet121() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            shrink = nn.Conv2d(inputs, inputs // 2, 1, bias=False)
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(), shrink, nn.AvgPool2d(2)]
            inputs //= 2
        for _ in range(count):
            layers.append(Dense(inputs))
            inputs += 32
    return headed([*layers, nn.BatchNorm2d(inputs), nn.ReLU()], inputs)


class Fire(nn.Module):
    """SqueezeNet's module."""

    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.narrow, self.wide = nn.Conv2d(squeezed, outputs, 1), nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.narrow(y)), F.relu(self.wide(y))], 1)


def squeezenet1_0() -> nn.Module:
    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    first = [nn.Conv2d(3, 96, 7, 2), nn.ReLU(), pool(), Fire(96, 16, 64), Fire(128, 16, 64), Fire(128, 32, 128), pool()]
    second = [
        Fire(256, 32, 128),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        pool(),
        Fire(512, 64, 256),
    ]
    return nn.Sequential(*first, *second, nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Bottleneck(nn.Module):
    """ResNet-50's block; a dilation takes the place of the stride."""

    def __init__(self, inputs: int, middle: int, stride: int, dilation: int) -> None:
        super().__init__()
        outputs = 4 * middle
        wide = nn.Conv2d(middle, middle, 3, stride, dilation, dilation, bias=False)
        self.main = nn.Sequential(
            conv_norm(inputs, middle, 1),
            nn.Sequential(wide, nn.BatchNorm2d(middle), nn.ReLU()),
            conv_norm(middle, outputs, 1, act=nn.Identity),
        )
        self.down = conv_norm(inputs, outputs, 1, stride, act=nn.Identity) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.main(x) + self.down(x))


class Pyramid(nn.Module):
    """DeepLabV3's head: dilated convolutions side by side, and the mean of the image."""

    def __init__(self, inputs: int, outputs: int = 256) -> None:
        super().__init__()
        dilated = [nn.Conv2d(inputs, outputs, 3, 1, rate, rate, bias=False) for rate in (12, 24, 36)]
        branches = [nn.Conv2d(inputs, outputs, 1, bias=False), *dilated]
        self.branches = nn.ModuleList(nn.Sequential(b, nn.BatchNorm2d(outputs), nn.ReLU()) for b in branches)
        self.image = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inputs, outputs, 1, bias=False), nn.ReLU())
        self.last = nn.Sequential(conv_norm(5 * outputs, outputs, 1), conv_norm(outputs, outputs, 3))

    def forward(self, x: Tensor) -> Tensor:
        image = self.image(x).expand(-1, -1, *x.shape[2:])
        return self.last(torch.cat([*(branch(x) for branch in self.branches), image], 1))


class Segmenter(nn.Module):
    """A class for every pixel: features at an eighth of the size, interpolated."""

    def __init__(self, features: nn.Module, classes: int) -> None:
        super().__init__()
        self.features, self.classify = features, nn.Conv2d(256, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.classify(self.features(x))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


def deeplabv3_resnet50() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for middle, count, stride, dilation in ((64, 3, 1, 1), (128, 4, 2, 1), (256, 6, 1, 2), (512, 3, 1, 4)):
        for i in range(count):
            before = max(1, dilation // 2)  # the first block of a stage keeps the dilation before it
            layers.append(Bottleneck(inputs, middle, stride if i == 0 else 1, before if i == 0 else dilation))
            inputs = 4 * middle
    return Segmenter(nn.Sequential(*layers, Pyramid(inputs)), 21)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": resnet18,
    "vgg16": vgg16,
    "mobilenet_v3_small": mobilenet_v3_small,
    "mobilenet_v3_large": mobilenet_v3_large,
    "shufflenet_v2": shufflenet_v2,
    "densenet121": densenet121,
    "squeezenet1_0": squeezenet1_0,
    "deeplabv3_resnet50": deeplabv3_resnet50,
}
"""Name -> the network with random weights."""
