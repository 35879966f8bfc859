"""LSTM, GRU and RNN, step by step: the sum of a gate is rounded once, and so is every function and product after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import apply, ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._gates import QuantizedSums, sums_for
from halfulp.onnx.operators._moving import integers
from halfulp.onnx.operators._plain import concatenate, direct, ieee, index, reshape, transpose
from halfulp.onnx.operators.elementwise import Clip
from halfulp.onnx.operators.movement import where
from halfulp.records import Relu, Sigmoid, Tanh

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": direct(Sigmoid()),
    "tanh": direct(Tanh()),
    "relu": direct(Relu()),
}

State = tuple[Any, ...]


@dataclass(frozen=True)
class Layer:
    """What the three operators share: attributes, and one direction after the other."""

    node: Node
    gates: int
    directions: tuple[bool, ...]
    functions: tuple[tuple[Callable[[Any], Any], ...], ...]
    clip: float
    hidden: int
    batch_first: bool

    def run(
        self,
        prepare: Callable[[int, Any, Any, Any, Any], Any],
        cell: Callable[[Layer, int, int, State, Any, Any], State],
        x: Any,
        weights: Sequence[Any],
        lengths: Any,
        states: Sequence[Any],
        extra: Any = None,
    ) -> tuple[Any, ...]:
        """Outputs of all steps, and the last of every state."""
        w, r, b = weights
        node = self.node
        node.same_types(x, *(() if w.dtype.kind in "iu" else (w, r)), b, *states, extra)
        if len(x.shape) != 3:
            raise node.refusal(f"X shape={tuple(x.shape)}", "must have three axes", "O9")
        if self.batch_first:
            x = transpose(x, (1, 0, 2))
            states = [None if s is None else transpose(s, (1, 0, 2)) for s in states]
        steps, batch, size = x.shape
        rows, count = self.gates * self.hidden, len(self.directions)
        for name, value, shape in (("W", w, (count, rows, size)), ("R", r, (count, rows, self.hidden))):
            if tuple(value.shape) != shape:
                raise node.refusal(f"{name} shape={tuple(value.shape)}", f"must be {shape}", "O9")
        if b is not None and tuple(b.shape) != (count, 2 * rows):
            raise node.refusal(f"B shape={tuple(b.shape)}", f"must be {(count, 2 * rows)}", "O9")
        for state in states:
            if state is not None and tuple(state.shape) != (count, batch, self.hidden):
                rule = f"must be {(count, batch, self.hidden)}"
                raise node.refusal(f"initial state shape={tuple(state.shape)}", rule, "O9")
        node.fits((steps, count, batch, self.hidden), x)
        node.fits((rows, size + self.hidden), w, 16)
        taken = self._lengths(lengths, steps, batch)
        outputs, finals = [], []
        for way, backward in enumerate(self.directions):
            state = tuple(full((batch, self.hidden), strip(x), 0) if s is None else index(s, way) for s in states)
            order = _order(taken, steps, backward)
            line, state = self._direction(prepare, cell, way, _ordered(x, order), (w, r, b, extra), taken, state)
            outputs.append(_ordered(line, order) if line is not None else full((0, batch, self.hidden), strip(x), 0))
            finals.append(state)
        y = concatenate([reshape(o, (steps, 1, batch, self.hidden)) for o in outputs], 1)
        last = [concatenate([reshape(f[i], (1, batch, self.hidden)) for f in finals], 0) for i in range(len(states))]
        if self.batch_first:
            y, last = transpose(y, (2, 0, 1, 3)), [transpose(s, (1, 0, 2)) for s in last]
        return (y, *last)

    def _lengths(self, lengths: Any, steps: int, batch: int) -> list[int]:
        taken = [steps] * batch if lengths is None else integers(self.node, lengths, "sequence_lens")
        if len(taken) != batch or any(not 0 <= n <= steps for n in taken):
            rule = f"must be {batch} numbers from 0 to {steps}"
            raise self.node.refusal(f"sequence_lens={taken}", rule, "O9")
        return taken

    def _direction(
        self, prepare: Any, cell: Any, way: int, x: Any, weights: Sequence[Any], lengths: list[int], state: State
    ) -> tuple[Any, State]:
        """All steps of one direction: the outputs, zeros after the end of a sequence, and the last state."""
        w, r, b, extra = (None if v is None else index(v, way) for v in weights)
        rows = self.gates * self.hidden
        biases = () if b is None else (index(b, slice(0, rows)), index(b, slice(rows, 2 * rows)))
        sums = prepare(way, w, r, biases, x)
        outputs = []
        whole = min(lengths, default=0)
        for step in range(x.shape[0]):
            new = cell(self, way, step, state, sums, extra)
            shown = new[0]
            if step >= whole:
                running = np.array([step < n for n in lengths], dtype=np.bool_)[:, None]
                new = tuple(where(running, a, old) for a, old in zip(new, state, strict=True))
                shown = where(running, new[0], full((), strip(new[0]), 0))
            state = new
            outputs.append(reshape(shown, (1, *shown.shape)))
        return (concatenate(outputs, 0) if outputs else None), state

    def clipped(self, gate: Any) -> Any:
        """The argument of a function, held between -clip and clip if there is one."""
        if self.clip == 0:
            return gate
        bound = strip(gate).dtype.type(self.clip)
        return apply(Clip(-bound, bound), gate)


def _order(lengths: list[int], steps: int, backward: bool) -> NDArray[np.int64] | None:
    """For every step and batch entry, the step that is read; None where it is its own."""
    if not backward:
        return None
    columns = [[n - 1 - t if t < n else t for t in range(steps)] for n in lengths]
    return np.asarray(np.array(columns, dtype=np.int64).reshape(len(lengths), steps).T)


def _ordered(x: Any, order: NDArray[np.int64] | None) -> Any:
    return x if order is None else index(x, (order, np.arange(order.shape[1])[None, :]))


def _together(way: int, w: Any, r: Any, biases: Any, x: Any) -> Any:
    return sums_for(w, r, x)((w, r), biases, x)


def _layer(node: Node, gates: int, defaults: tuple[str, ...]) -> Layer:
    direction = node.text("direction", "forward")
    if direction not in _DIRECTIONS:
        raise node.refusal(f"direction={direction!r}", f"must be one of {', '.join(_DIRECTIONS)}")
    directions = _DIRECTIONS[direction]
    named = node.texts("activations") or defaults * len(directions)
    if len(named) != len(defaults) * len(directions) or any(name.lower() not in _FUNCTIONS for name in named):
        rule = f"must be {len(defaults)} of Sigmoid, Tanh and Relu for each direction"
        raise node.refusal(f"activations={list(named)}", rule)
    if node.numbers("activation_alpha") or node.numbers("activation_beta"):
        raise node.refusal("activation_alpha, activation_beta", "Sigmoid, Tanh and Relu take none")
    functions = [_FUNCTIONS[name.lower()] for name in named]
    width = len(defaults)
    grouped = tuple(tuple(functions[i * width : (i + 1) * width]) for i in range(len(directions)))
    hidden, clip = node.integer("hidden_size", 0), node.number("clip", 0.0)
    if hidden < 1 or not clip >= 0:
        raise node.refusal(f"hidden_size={hidden}, clip={clip}", "must be >= 1, and >= 0")
    first = node.flag("layout") if node.opset >= 14 else False
    return Layer(node, gates, directions, grouped, clip, hidden, first)


def _gates(values: Any, count: int, hidden: int) -> list[Any]:
    if type(values) is np.ndarray:
        return [values[:, i * hidden : (i + 1) * hidden] for i in range(count)]
    return [index(values, (slice(None), slice(i * hidden, (i + 1) * hidden))) for i in range(count)]


def _add(x: Any, y: Any) -> Any:
    return np.add(x, y) if ieee(x, y) else ops.add(x, y)


def _mul(x: Any, y: Any) -> Any:
    return np.multiply(x, y) if ieee(x, y) else ops.mul(x, y)


def _lstm(node: Node) -> tuple[Layer, Callable[..., State]]:
    """The layer and the cell of an LSTM."""
    layer, joined = _layer(node, 4, ("Sigmoid", "Tanh", "Tanh")), node.flag("input_forget")

    def cell(layer: Layer, way: int, step: int, state: State, sums: Any, peep: Any) -> State:
        hidden, memory = state
        f, g, h = layer.functions[way]
        i_gate, o_gate, f_gate, c_gate = _gates(sums(step, hidden), 4, layer.hidden)
        peeps = [None] * 3 if peep is None else _cells(peep, layer.hidden)

        def gate(value: Any, peephole: Any, held: Any) -> Any:
            return f(layer.clipped(value if peephole is None else _add(value, _mul(held, _row(peephole, held)))))

        enter = gate(i_gate, peeps[0], memory)
        keep = ops.sub(full((), strip(enter), 1), enter) if joined else gate(f_gate, peeps[2], memory)
        new = _add(_mul(keep, memory), _mul(enter, g(layer.clipped(c_gate))))
        return _mul(gate(o_gate, peeps[1], new), h(new)), new

    return layer, cell


def lstm(node: Node) -> Callable[..., Any]:
    """LSTM, with peepholes."""
    layer, cell = _lstm(node)

    def run(
        x: Any, w: Any, r: Any, b: Any = None, lens: Any = None, h: Any = None, c: Any = None, p: Any = None
    ) -> Any:
        _check_peepholes(layer, p)
        return layer.run(_together, cell, x, (w, r, b), lens, (h, c), p)[: len(node.outputs)]

    return run


def dynamic_quantize_lstm(node: Node) -> Callable[..., Any]:
    """DynamicQuantizeLSTM: LSTM with integer weights, (directions, inputs, 4 * hidden); see :class:`QuantizedSums`."""
    layer, cell = _lstm(node)

    def run(
        x: Any,
        w: Any,
        r: Any,
        b: Any = None,
        lens: Any = None,
        h: Any = None,
        c: Any = None,
        p: Any = None,
        w_scale: Any = None,
        w_zero: Any = None,
        r_scale: Any = None,
        r_zero: Any = None,
    ) -> Any:
        _check_peepholes(layer, p)
        count, columns = len(layer.directions), 4 * layer.hidden
        numbers = ("W_scale", w_scale), ("W_zero_point", w_zero), ("R_scale", r_scale), ("R_zero_point", r_zero)
        for name, value in numbers:
            if value is None or value.shape not in ((count,), (count, columns)):
                shape = None if value is None else value.shape
                raise node.refusal(f"{name} shape={shape}", f"must be {(count,)} or {(count, columns)}", "O9")
        for name, value, zero in (("W", w, w_zero), ("R", r, r_zero)):
            if value.dtype not in (np.int8, np.uint8) or zero.dtype != value.dtype or len(value.shape) != 3:
                raise node.refusal(
                    f"{name} {value.dtype}{list(value.shape)}", "must be int8 or uint8, three axes", "O9"
                )
        node.same_types(x, w_scale, r_scale)

        def prepare(way: int, w: Any, r: Any, biases: Any, x: Any) -> QuantizedSums:
            weights = [(w, w_scale[way], w_zero[way]), (r, r_scale[way], r_zero[way])]
            return QuantizedSums(node, weights, biases, x)

        turned = w.transpose(0, 2, 1), r.transpose(0, 2, 1), b
        return layer.run(prepare, cell, x, turned, lens, (h, c), p)[: len(node.outputs)]

    return run


def _check_peepholes(layer: Layer, p: Any) -> None:
    shape = (len(layer.directions), 3 * layer.hidden)
    if p is not None and tuple(p.shape) != shape:
        raise layer.node.refusal(f"P shape={tuple(p.shape)}", f"must be {shape}", "O9")


def _cells(vector: Any, hidden: int) -> list[Any]:
    return [index(vector, slice(k * hidden, (k + 1) * hidden)) for k in range(3)]


def _row(vector: Any, like: Any) -> Any:
    return ops.broadcast_to(vector, like.shape)


def gru(node: Node) -> Callable[..., Any]:
    """GRU; the reset gate works on the hidden state, or with linear_before_reset on its products."""
    layer, late = _layer(node, 3, ("Sigmoid", "Tanh")), node.flag("linear_before_reset")

    def prepare(way: int, w: Any, r: Any, biases: Any, x: Any) -> tuple[Callable[..., Any], ...]:
        sums = sums_for(w, r, x)
        two, three = slice(0, 2 * layer.hidden), slice(2 * layer.hidden, 3 * layer.hidden)
        first = sums([index(v, two) for v in (w, r)], [index(b, two) for b in biases], x)
        own, held = (index(v, three) for v in (w, r))
        last = [index(b, three) for b in biases]
        if late:
            return first, sums((own,), last[:1], x), sums((held,), last[1:])
        return first, sums((own, held), last, x)

    def cell(layer: Layer, way: int, step: int, state: State, sums: Any, extra: Any) -> State:
        (hidden,) = state
        f, g = layer.functions[way]
        update, reset = (f(layer.clipped(v)) for v in _gates(sums[0](step, hidden), 2, layer.hidden))
        held = _mul(reset, sums[2](hidden) if late else hidden)
        new = g(layer.clipped(_add(sums[1](step), held) if late else sums[1](step, held)))
        rest = ops.sub(full((), strip(update), 1), update)
        return (_add(_mul(rest, new), _mul(update, hidden)),)

    def run(x: Any, w: Any, r: Any, b: Any = None, lens: Any = None, h: Any = None) -> Any:
        return layer.run(prepare, cell, x, (w, r, b), lens, (h,))[: len(node.outputs)]

    return run


def rnn(node: Node) -> Callable[..., Any]:
    """RNN: one sum and one function a step."""
    layer = _layer(node, 1, ("Tanh",))

    def cell(layer: Layer, way: int, step: int, state: State, sums: Any, extra: Any) -> State:
        (f,) = layer.functions[way]
        return (f(layer.clipped(sums(step, state[0]))),)

    def run(x: Any, w: Any, r: Any, b: Any = None, lens: Any = None, h: Any = None) -> Any:
        return layer.run(_together, cell, x, (w, r, b), lens, (h,))[: len(node.outputs)]

    return run
