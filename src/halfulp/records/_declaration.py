"""What an operator is, said once: beside its record, for every layer.

A record says which arguments an operator takes. Its declaration says the rest, and everything that used to be written
per operator in each layer is derived from the two: the functional forms, the tape's methods, the functions and modules
for PyTorch, the functions for JAX, the cases of the lab, the choices of the command line and the pages of the
documentation. ``python -m tools.generate`` writes the files that are derived as source.

A new operator is declared at the end of its record's file::

    declare(
        MinPool,
        kind="selecting",                # linear, bilinear, selecting, smooth
        curvature="none",                # none, linear, bilinear, or a Curvature of its own
        draw=Draw("window", ties=TIES, nan=NAN_DRAWN),   # how the lab draws cases
        integers=True,                   # forward takes integers and bool as they are
        indices=True,                    # the functional form has return_indices
        keywords=("ties", "nan"),        # fields that are keyword-only in the functional forms
        summary="The smallest real cell of every window",
    )

and needs, besides, its meaning (``spec.register``) and its kernels (``kernels.register``). Fields of the record become
parameters of the functional forms in their order; ``order`` and ``renamed`` say where that differs, as in
``lp_pool2d(input, norm_type, kernel_size, …)``. Further inputs are named in ``inputs``; those in ``constant`` have no
derivative, such as the indices of an unpooling; the last ``optional`` of them may be None.

Operators outside of this package are declared the same way, with :func:`halfulp.declare`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from halfulp.errors import DTypeError
from halfulp.records._base import Operator
from halfulp.records._curvature import BILINEAR, LINEAR, NONE, Curvature

KINDS: Final = ("linear", "bilinear", "selecting", "smooth")
CURVATURES: Final = {"none": NONE, "linear": LINEAR, "bilinear": BILINEAR}
FAMILIES: Final = ("window", "adaptive", "global", "conv", "conv_transpose")
NAN_DRAWN: Final = ("propagate", "ignore")
"""What the lab draws of the NaN policies: "raise" has no value to compare."""


@dataclass(frozen=True)
class Draw:
    """How the lab draws a record and input shapes that fit it.

    ``family`` names the arguments that operators share (``window``: kernel_size to ceil_mode; ``adaptive``:
    output_size; ``global``: ndim and keepdims; ``conv`` and ``conv_transpose``), and every further field of the record
    has a tuple of values to choose from. Or ``family`` is a function that gets ``choose`` and returns (record, shapes):
    ``choose(values)`` picks one of a sequence. ``terms`` limits the cells of an exact evaluation, counted once
    per window. ``constants(op, shapes, rng)`` makes the inputs that have no derivative, such as indices.

    >>> Draw("window", ties=("first", "last")).choices
    {'ties': ('first', 'last')}
    """

    family: str | Callable[[Callable[[Any], Any]], tuple[Operator, tuple[Any, ...]]]
    choices: dict[str, tuple[Any, ...]]
    terms: int
    constants: Callable[..., tuple[Any, ...]] | None

    def __init__(self, family: Any, *, terms: int = 3000, constants: Any = None, **choices: tuple[Any, ...]) -> None:
        if not callable(family) and family not in FAMILIES:
            raise ValueError(f"Draw({family!r}): must be a function or one of {', '.join(map(repr, FAMILIES))} [E8]")
        object.__setattr__(self, "family", family)
        object.__setattr__(self, "choices", choices)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "constants", constants)

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the functional forms: its name there, the record's field, and its default."""

    name: str
    field: str
    default: Any
    annotation: str
    keyword: bool


@dataclass(frozen=True)
class Declaration:
    """What every layer needs to know of an operator besides its record; see the module for how one is made."""

    record: type[Operator]
    kind: str
    curvature: Curvature
    draw: Draw
    inputs: tuple[str, ...] = ("input",)
    optional: int = 0
    constant: tuple[str, ...] = ()
    integers: bool = False
    indices: bool = False
    ranks: tuple[int, ...] = (1, 2, 3)
    default_rank: int | None = None
    keywords: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    form: tuple[str, ...] = ()
    """All parameters of the functional form in their order, inputs included, where the inputs do not come first."""
    through: str = ""
    """The function of ``functional._running`` that applies the record, where more than that is to be done."""
    trailing: tuple[str, ...] = ()
    """Inputs that are keyword-only in the functional forms, as the samples of a fractional max pooling."""
    renamed: dict[str, str] = field(default_factory=dict, hash=False)
    summary: str = ""
    note: str = ""
    extra: str = ""
    examples: tuple[str, ...] = ()
    torch: bool = True
    onnx: tuple[str, ...] = ()
    module: str | None = ""
    planar: bool = True
    accepts: tuple[str, ...] = ()
    """Parameters of PyTorch's function that the record does not have, as source; ``form`` gives them their places."""
    before: str = ""
    """What these parameters change, as statements in front of the call; ``{out}`` hands an output array on,
    ``{rank}`` is the form's rank."""

    @property
    def name(self) -> str:
        """The functional name, without a rank."""
        return str(getattr(self.record, "base_name", self.record.__name__.lower()))

    @property
    def convolution(self) -> bool:
        """Whether it is a convolution: a weight, and a rank that the weight fixes."""
        return self.rank_field == "ndim" and "weight" in self.inputs

    @property
    def several(self) -> bool:
        """Whether it has derivatives in several inputs, or inputs that may be absent, and is no convolution."""
        return self.record.required is not None

    @property
    def has_ties(self) -> bool:
        """Whether the record has a rule for ties: it selects the largest or smallest cell."""
        return any(f.name == "ties" for f in fields(self.record))

    @property
    def names(self) -> tuple[str, ...]:
        """All functional names: the plain one and those with a rank."""
        return (self.name, *(f"{self.name}{rank}d" for rank in self.ranks))

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of PyTorch's modules for it, one per rank; ``module`` is the name where it is not the record's."""
        if self.module is None:
            return ()
        name = self.module or self.record.__name__
        return tuple(f"{name}{rank}d" for rank in self.ranks) or (name,)

    @property
    def shown(self) -> bool:
        """Whether ``halfulp show`` draws it: a plane in, a plane out, and at most a weight besides."""
        return self.planar and not self.constant

    @property
    def arity(self) -> int:
        """How many inputs the operator takes, those that may be None included."""
        return len(self.inputs)

    @property
    def given(self) -> tuple[str, ...]:
        """The inputs by the names that they have in the functional forms."""
        return tuple(self.renamed.get(name, name) if name in self.trailing else name for name in self.inputs)

    @property
    def differentiable(self) -> tuple[bool, ...]:
        """Which inputs have a derivative."""
        return tuple(name not in self.constant for name in self.inputs)

    @property
    def rank_field(self) -> str | None:
        """The field that fixes the rank: ``kernel_size``, ``output_size`` or ``ndim``; None if there is no rank."""
        names = {f.name for f in fields(self.record)}
        return next((name for name in ("ndim", "kernel_size", "output_size") if name in names), None)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the functional forms after the inputs, in their order; keyword-only ones last."""
        known = {f.name: f for f in fields(self.record) if f.name not in (*self.hidden, "ndim")}
        plain = [name for name in (self.order or known) if name not in self.keywords]
        return tuple(
            Parameter(
                self.renamed.get(name, name),
                name,
                known[name].default,
                _annotation(known[name].type),
                name in self.keywords,
            )
            for name in (*plain, *self.keywords)
        )


_declared: dict[type[Operator], Declaration] = {}


def declare(
    record: type[Operator], *, kind: str | None = None, curvature: Any = None, draw: Draw | None = None, **more: Any
) -> Declaration:
    """Make an operator known to every layer; a declaration that leaves something out is refused.

    ``curvature`` is its second derivative: ``"none"`` (the derivative is constant around a point), ``"linear"`` (the
    derivative is the same everywhere), ``"bilinear"``, or a :class:`halfulp.Curvature` with rules of its own.

    >>> from halfulp import MaxPool
    >>> declare(MaxPool, kind="selecting", draw=Draw("window"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    halfulp.errors.DTypeError: MaxPool: curvature=None: must be one of 'none', 'linear', ... [E8]
    """
    title = getattr(record, "__name__", repr(record))
    own = isinstance(record, type) and issubclass(record, Operator) and "__dataclass_params__" in vars(record)
    if not own or not record.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # of a dataclass
        raise DTypeError(title, "record", "must be a frozen dataclass derived from halfulp.Operator", "E8")
    if kind not in KINDS:
        raise DTypeError(title, f"kind={kind!r}", f"must be one of {', '.join(map(repr, KINDS))}", "E8")
    rule = CURVATURES.get(curvature) if isinstance(curvature, str) else curvature
    if not isinstance(rule, Curvature) or not callable(rule.tangent) or not callable(rule.cotangent):
        text = f"must be one of {', '.join(map(repr, CURVATURES))} or a Curvature: what the second derivative is"
        raise DTypeError(title, f"curvature={curvature!r}", text, "E8")
    if not isinstance(draw, Draw):
        raise DTypeError(title, f"draw={draw!r}", "must say how the lab draws cases: a halfulp.Draw", "E8")
    _refuse_unknown(title, record, draw, more)
    missing = [name for name in _undrawn(record, draw) if name not in more.get("hidden", ())]
    if missing:
        text = f"must give values to choose from for {', '.join(missing)}"
        raise DTypeError(title, f"draw={draw.family!r}", text, "E8")
    constant = getattr(record, "constants", ())
    more = {"inputs": getattr(record, "input_names", ("input",))[: record.arity], "constant": constant} | more
    if len(more["inputs"]) != record.arity:
        text = f"must name every input: {title}.arity is {record.arity}"
        raise DTypeError(title, f"inputs={more['inputs']!r}", text, "E8")
    if rule.constant and more["constant"]:  # the derivative depends on those inputs
        rule = NONE
    _declared[record] = Declaration(record, kind, rule, draw, **more)
    return _declared[record]


_RANKED: Final = {"window": "kernel_size", "adaptive": "output_size"}
_NAMING: Final = dict.fromkeys(("keywords", "hidden", "order"), "fields") | {"constant": "inputs", "trailing": "inputs"}


def _refuse_unknown(title: str, record: type[Operator], draw: Draw, more: dict[str, Any]) -> None:
    """Options that a declaration does not have, and names in them that the record does not have."""
    options = [f.name for f in fields(Declaration)][4:]
    words = {"fields": [f.name for f in fields(record)], "inputs": list(more.get("inputs", record.input_names))}
    for name, value in more.items():
        if name not in options:
            raise DTypeError(title, f"{name}={value!r}", f"must be one of {', '.join(options)}", "E8")
        known = words.get(_NAMING.get(name, ""))
        if known is not None and not {*value} <= {*known}:
            text = f"must be among the record's {_NAMING[name]}: {', '.join(known) or 'none'}"
            raise DTypeError(title, f"{name}={value!r}", text, "E8")
    chosen = [*draw.choices, *([] if callable(draw.family) else [_RANKED.get(draw.family, "ndim")])]
    strange = [name for name in chosen if name not in words["fields"]]
    if strange:
        text = f"draws {', '.join(strange)}, but the record's fields are: {', '.join(words['fields']) or 'none'}"
        raise DTypeError(title, f"draw={draw.family!r}", text, "E8")


def _undrawn(record: type[Operator], draw: Draw) -> list[str]:
    """Required fields that neither the family nor the choices give."""
    if callable(draw.family):
        return []
    given = {"kernel_size", "output_size", "ndim", *draw.choices}
    return [f.name for f in fields(record) if f.default is MISSING and f.name not in given]


def _annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", "Any")
    return "Any" if text in ("PerAxis", "PaddingLike", "Sizes", "Axes", "MaybeSizes", "Factors") else text


def declaration_of(op: Operator | type[Operator]) -> Declaration:
    """The declaration of a record, or an error that says how to make one."""
    record = op if isinstance(op, type) else type(op)
    found = _declared.get(record)
    if found is None:
        raise DTypeError(
            record.__name__,
            "no declaration",
            "second derivatives and bridges need one: halfulp.declare says its kind, curvature and drawing",
            "E8",
        )
    return found


def is_declared(op: Operator | type[Operator]) -> bool:
    """Whether the operator has a declaration."""
    return (op if isinstance(op, type) else type(op)) in _declared


def declarations() -> Iterator[Declaration]:
    """Every declaration by the family of its arguments and its kind; those from outside of the package come last."""
    return iter(sorted(_declared.values(), key=_place))


def _place(declaration: Declaration) -> tuple[bool, int, int]:
    family, kinds = declaration.draw.family, ("selecting", "linear", "smooth", "bilinear")
    foreign = not declaration.record.__module__.startswith("halfulp.")
    return foreign, len(FAMILIES) if callable(family) else FAMILIES.index(family), kinds.index(declaration.kind)


def named(name: str) -> Declaration:
    """The declaration with this functional name or class name.

    >>> named("max_pool").record.__name__
    'MaxPool'
    """
    for declaration in _declared.values():
        if name in (declaration.name, declaration.record.__name__):
            return declaration
    raise KeyError(f"no operator is named {name!r}")
