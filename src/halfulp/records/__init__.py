"""The operators as values: frozen, hashable, checked at construction, and nothing about how they are evaluated."""

from halfulp.records._base import Array, Interpreter, Operator, PaddingLike, PerAxis, Pullback, Shape, set_interpreter
from halfulp.records._curvature import Curvature
from halfulp.records._declaration import (
    Declaration,
    Draw,
    declaration_of,
    declarations,
    declare,
    is_declared,
    named,
)
from halfulp.records._elementwise import ElementwiseOperator
from halfulp.records._generated import *
from halfulp.records._generated import __all__ as _operators
from halfulp.records._window import SlidingOperator, WindowOperator
from halfulp.records.adaptive_pool import AdaptiveOperator
from halfulp.records.conv import ConvolutionOperator
from halfulp.records.global_pool import GlobalOperator
from halfulp.records.normalization import NormalisationOperator
from halfulp.records.reduction import ReductionOperator
from halfulp.records.softmax import SoftmaxOperator
from halfulp.records.unfold import PatchOperator

ELEMENTWISE: tuple[type[ElementwiseOperator], ...] = tuple(
    sorted((d.record for d in declarations() if issubclass(d.record, ElementwiseOperator)), key=lambda r: r.__name__)
)
"""Every elementwise function."""

__all__ = [
    "ELEMENTWISE",
    "AdaptiveOperator",
    "Array",
    "ConvolutionOperator",
    "Curvature",
    "Declaration",
    "Draw",
    "ElementwiseOperator",
    "GlobalOperator",
    "Interpreter",
    "NormalisationOperator",
    "Operator",
    "PaddingLike",
    "PatchOperator",
    "PerAxis",
    "Pullback",
    "ReductionOperator",
    "Shape",
    "SlidingOperator",
    "SoftmaxOperator",
    "WindowOperator",
    "declaration_of",
    "declarations",
    "declare",
    "is_declared",
    "named",
    "set_interpreter",
    *_operators,
]
