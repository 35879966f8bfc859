"""Small networks built as six well-known architectures are: their blocks and calls, with few channels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.down = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x))
        y += self.down(x)
        return F.relu(y)


class Headed(nn.Module):
    """Features, a global average, and a linear head."""

    def __init__(self, features: nn.Module, channels: int) -> None:
        super().__init__()
        self.features, self.head = features, nn.Linear(channels, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.features(x), (1, 1)), 1))


def resnet() -> nn.Module:
    blocks = [conv_norm(3, 4, 7, 2), nn.MaxPool2d(3, 2, 1), Residual(4, 4, 1), Residual(4, 8, 2)]
    return Headed(nn.Sequential(*blocks), 8)


class Vgg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(conv_norm(3, 4, 3), nn.MaxPool2d(2), conv_norm(4, 6, 3), nn.MaxPool2d(2))
        self.average = nn.AdaptiveAvgPool2d((3, 3))
        self.classifier = nn.Sequential(nn.Linear(54, 16), nn.ReLU(True), nn.Dropout(0.5), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.average(self.features(x)), 1))


class Excited(nn.Module):
    """MobileNetV3's inverted residual with squeeze and excitation."""

    def __init__(self, channels: int, wide: int, kernel: int) -> None:
        super().__init__()
        self.expand, self.depth = conv_norm(channels, wide, 1), conv_norm(wide, wide, kernel, groups=wide)
        self.fc1, self.fc2 = nn.Conv2d(wide, 2, 1), nn.Conv2d(2, wide, 1)
        self.project = nn.Sequential(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        scale = F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.project(scale * y)


def mobilenet() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.Hardswish())
    return Headed(nn.Sequential(stem, Excited(4, 8, 3), Excited(4, 12, 5)), 4)


class Dense(nn.Module):
    """DenseNet's layers: each sees what all before it gave."""

    def __init__(self, channels: int, growth: int, count: int) -> None:
        super().__init__()
        sizes = [channels + i * growth for i in range(count)]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(inplace=True), nn.Conv2d(n, growth, 3, padding=1, bias=False))
            for n in sizes
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


def densenet() -> nn.Module:
    moves = nn.Sequential(nn.BatchNorm2d(10), nn.ReLU(), nn.Conv2d(10, 5, 1, bias=False), nn.AvgPool2d(2, 2))
    return Headed(nn.Sequential(conv_norm(3, 4, 7, 2), Dense(4, 2, 3), moves, Dense(5, 2, 2), nn.BatchNorm2d(9)), 9)


class Fire(nn.Module):
    """SqueezeNet's module."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.one, self.three = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    features = [nn.Conv2d(3, 6, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(6, 3, 4)]
    head = [nn.Dropout(0.5), nn.Conv2d(8, 5, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1)]
    return nn.Sequential(*features, *head)


class Inception(nn.Module):
    """GoogLeNet's module."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.one = conv_norm(inputs, 3, 1)
        self.three = nn.Sequential(conv_norm(inputs, 2, 1), conv_norm(2, 4, 3))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv_norm(inputs, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.pool(x)], 1)


def googlenet() -> nn.Module:
    return Headed(
        nn.Sequential(conv_norm(3, 4, 7, 2), Inception(4), nn.MaxPool2d(3, 2, ceil_mode=True), Inception(9)), 9
    )


ALL = {
    "resnet": resnet,
    "vgg": Vgg,
    "mobilenet": mobilenet,
    "densenet": densenet,
    "squeezenet": squeezenet,
    "googlenet": googlenet,
}
