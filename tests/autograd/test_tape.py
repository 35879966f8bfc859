"""The tape itself: appending, purity, backward and forward sweeps, and its errors by label."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st
from tests.scaling import examples

import halfulp as hu
from halfulp import DTypeError, Tape, TapeError


def objects(kind: Any, *values: Any) -> Any:
    return np.array([kind(v) for v in values], dtype=object)


def test_every_operation_appends_exactly_one_node_and_ids_are_positions() -> None:
    tape, x = Tape().leaf(np.ones((1, 4, 4)), name="x")
    tape, w = tape.leaf(np.ones((1, 1, 3, 3)), name="w")
    tape, b = tape.leaf(np.zeros(1))
    before = len(tape)
    tape, y = tape.conv2d(w, b, x)
    assert (len(tape), y) == (before + 1, before)
    node = tape.nodes[y]
    assert (node.id, node.name, node.parents, node.requires_grad) == (y, "conv2d", (x, w, b), True)
    assert node.pullback is not None
    assert [n.id for n in tape.nodes] == list(range(len(tape)))
    assert node.value.tolist() == [[[9.0, 9.0], [9.0, 9.0]]]


def test_backward_adds_up_shared_nodes_and_leaves_out_what_is_not_reached() -> None:
    tape, x = Tape().leaf(np.array([2.0, 3.0]))
    tape, fixed = tape.leaf(np.array([5.0, 7.0]), requires_grad=False)
    tape, square = tape.mul(x, x)
    tape, product = tape.mul(square, fixed)
    tape, side = tape.exp(x)
    tape, total = tape.add(product, x)
    tape, loss = tape.sum(total)
    gradients = tape.backward(loss)
    assert gradients[x].tolist() == [2 * 2 * 5 + 1, 2 * 3 * 7 + 1]
    assert side not in gradients
    assert fixed not in gradients
    assert set(gradients) == {x, square, product, total, loss}


def test_accumulation_order_is_latest_consumer_first() -> None:
    # 1, then 2**-53 twice: added from the latest use the two small ones meet first and count, else they are lost.
    tape, x = Tape().leaf(np.array(1.0))
    tape, one = tape.leaf(np.array(1.0), requires_grad=False)
    tape, small = tape.leaf(np.array(2.0**-53), requires_grad=False)
    tape, first = tape.mul(x, one)
    tape, second = tape.mul(x, small)
    tape, third = tape.mul(x, small)
    tape, left = tape.add(first, second)
    tape, loss = tape.add(left, third)
    assert tape.backward(loss)[x] == 1.0 + 2.0**-52


def test_a_node_without_gradient_has_no_pullback_and_no_entries() -> None:
    tape, x = Tape().leaf(np.ones(3), requires_grad=False)
    tape, y = tape.exp(x)
    tape, z = tape.sum(y)
    assert tape.nodes[y].pullback is None
    assert tape.backward(z) == {}


@pytest.mark.parametrize("op", [hu.Conv(1), hu.ConvTranspose(1)])
def test_a_convolution_computes_only_the_cotangents_that_are_asked_for(op: Any) -> None:
    generator = np.random.default_rng(0)
    values = [generator.standard_normal(shape) for shape in ((2, 5), (2, 2, 3), (2,))]
    output, pullback = op.vjp(*values)
    g = generator.standard_normal(output.shape)
    for wanted in product((False, True), repeat=3):
        tape, ids = Tape(), []
        for value, want in zip(values, wanted, strict=True):
            tape, id = tape.leaf(value, requires_grad=want)
            ids.append(id)
        tape, out = tape.apply(op, *ids)
        if not any(wanted):
            assert tape.nodes[out].pullback is None
            continue
        shares = tape.nodes[out].pullback(g)
        for share, expected, want in zip(shares, pullback(g), wanted, strict=True):
            assert (share is not None) == want
            assert share is None or share.tobytes() == expected.tobytes()


def test_jvp_pushes_tangents_over_the_same_nodes() -> None:
    tape, x = Tape().leaf(np.array([1.0, 2.0]))
    tape, y = tape.leaf(np.array([3.0, 4.0]))
    tape, z = tape.mul(x, y)
    assert tape.jvp(z, {x: np.array([1.0, 10.0])}).tolist() == [3.0, 40.0]
    assert tape.jvp(z, {}).tolist() == [0.0, 0.0]
    assert tape.jvp(z, {x: np.ones(2), y: np.ones(2)}).tolist() == [4.0, 6.0]
    tape, w = tape.leaf(np.array([[[1.0, 2.0]]]))
    tape, image = tape.reshape(z, (1, 2))
    tape, out = tape.conv(w, None, image)
    assert tape.jvp(out, {w: np.array([[[1.0, 0.0]]])}).tolist() == [[3.0]]


@examples(40)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25), st.data())
def test_purity_an_old_tape_answers_the_same_after_others_grew_from_it(moves: Any, data: Any) -> None:
    tape, _ = Tape().leaf(objects(fmpq, 2, -1))
    tapes = [tape]
    answers = []
    for a, b in moves:
        base = tapes[data.draw(st.integers(0, len(tapes) - 1))]
        longer, last = base.add(a % len(base), b % len(base)) if a % 2 else base.sub(a % len(base), b % len(base))
        tapes.append(longer)
        answers.append((longer, last, longer.value(last), longer.backward(last, objects(fmpq, 1, 3)).get(0)))
    for longer, last, value, gradient in answers:
        assert (longer.value(last) == value).all()
        assert (longer.backward(last, objects(fmpq, 1, 3))[0] == gradient).all()
        assert [node.id for node in longer.nodes] == list(range(len(longer)))
        assert all(longer.node(i) is longer.nodes[i] for i in range(len(longer)))


def test_two_threads_extend_the_same_tape() -> None:
    base, x = Tape().leaf(np.array(2.0))

    def grow(count: int) -> float:
        tape, last = base, x
        for _ in range(count):
            tape, last = tape.mul(last, x)
        return float(tape.backward(last)[x])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(grow, [3, 4, 5, 6] * 8)) == [4 * 2.0**3, 5 * 2.0**4, 6 * 2.0**5, 7 * 2.0**6] * 8


def test_a_dropped_branch_is_freed_while_its_base_lives() -> None:
    base, x = Tape().leaf(np.ones(1000))
    branch, y = base.exp(x)
    value = weakref.ref(branch.value(y))
    del branch
    gc.collect()
    assert value() is None
    assert len(base) == 1


def test_a_chain_of_ten_thousand_nodes_needs_no_recursion() -> None:
    tape, x = Tape().leaf(np.array([1.0]))
    last = x
    for _ in range(10_000):
        tape, last = tape.add(last, x)
    assert len(tape) == 10_001
    assert tape.backward(last, np.array([1.0]))[x] == 10_001
    assert tape.jvp(last, {x: np.array([2.0])}) == 20_002
    assert tape.node(5_000).id == 5_000
    del tape  # freeing the chain must not recurse either


def chain(x: Any) -> Any:
    out = x
    for _ in range(10_000):
        out = out + x
    return out.sum()


def test_a_function_of_ten_thousand_steps_needs_no_recursion() -> None:
    assert hu.grad(chain)(np.array([1.0])) == 10_001
    assert hu.hvp(chain, (np.array([1.0]),), (np.array([1.0]),)) == 0


@pytest.mark.parametrize("bad", [1, -1, 10**9, "x", 0.0, True, None])
def test_E1_unknown_id(bad: Any) -> None:
    tape, _ = Tape().leaf(np.ones(2))
    with pytest.raises(TapeError, match=r"must be the position of one of the 1 nodes of this tape \[E1\]"):
        tape.node(bad)
    if bad is not None:
        with pytest.raises(TapeError, match=r"\[E1\]"):
            tape.relu(bad)


def test_E1_an_id_of_another_tapes_future() -> None:
    tape, x = Tape().leaf(np.ones(2))
    _, y = tape.relu(x)
    with pytest.raises(TapeError, match=r"id=1: .* \[E1\]"):
        tape.backward(y, np.ones(2))


def test_E1_only_trailing_inputs_may_be_absent() -> None:
    tape, x = Tape().leaf(np.ones((1, 3)))
    with pytest.raises(TapeError, match=r"only the last inputs may be absent \[E1\]"):
        tape.apply(hu.Conv(1), None, x)


def test_E2_shapes_that_do_not_fit() -> None:
    tape, x = Tape().leaf(np.ones((1, 4)))
    tape, w = tape.leaf(np.ones((1, 2, 3)))
    tape, v = tape.leaf(np.ones(3))
    for build, text in [
        (lambda: tape.conv(w, None, x), r"tape.conv1d: .*C4.* \[E2\]"),
        (lambda: tape.max_pool(x, (9,)), r"tape.max_pool1d: .*W5.* \[E2\]"),
        (lambda: tape.add(x, v), r"add: input shapes=\(1, 4\) and \(3,\): must broadcast together \[E2\]"),
        (lambda: tape.matmul(x, v), r"matmul: .*inner sizes.* \[E2\]"),
        (lambda: tape.matmul(w, w), r"matmul: .* \[E2\]"),
        (lambda: tape.linear(x, w), r"linear: .* \[E2\]"),
        (lambda: tape.reshape(x, (3,)), r"reshape: shape=\(3,\): cannot hold the 4 elements .* \[E2\]"),
        (lambda: tape.reshape(x, (-1, 3)), r"reshape: .* \[E2\]"),
        (lambda: tape.flatten(x, 5), r"flatten: start=5: .* \[E2\]"),
        (lambda: tape.transpose(x, (0, 0)), r"transpose: axes=\(0, 0\): must be a permutation .* \[E2\]"),
        (lambda: tape.concatenate([x, v]), r"concatenate: .* \[E2\]"),
        (lambda: tape.index(x, 7), r"index: key=7: .* \[E2\]"),
        (lambda: tape.sum(x, axis=2), r"sum: axis=2: .* \[E2\]"),
        (lambda: tape.mean(x, axis=(0, 0)), r"mean: axis=\(0, 0\): .* \[E2\]"),
        (lambda: tape.log_softmax(x, 4), r"log_softmax: .*dim=4: .* \[E2\]"),
        (lambda: tape.cross_entropy(x, [0, 1]), r"cross_entropy: labels shape=\(2,\): must be \(1,\).* \[E2\]"),
        (lambda: tape.cross_entropy(x, [4]), r"cross_entropy: labels from 4 to 4: must be in 0 … 3 \[E2\]"),
        (lambda: tape.cross_entropy(x, [0.5]), r"cross_entropy: labels dtype=float64: must be integers.* \[E2\]"),
        (lambda: tape.mse(x, v), r"mse_loss: target shape=\(3,\): .*\[E2\]"),
        (lambda: tape.power(x, -1), r"power: exponent=-1: .* \[E2\]"),
    ]:
        with pytest.raises(TapeError, match=text):
            build()


def test_E3_wrong_cotangent_or_tangent() -> None:
    tape, x = Tape().leaf(np.ones(3))
    tape, y = tape.exp(x)
    with pytest.raises(TapeError, match=r"cotangent shape=\(2,\): must be \(3,\), as the node's value \[E3\]"):
        tape.backward(y, np.ones(2))
    with pytest.raises(TapeError, match=r"cotangent of kind float32: must be float64, .* \[E3\]"):
        tape.backward(y, np.ones(3, dtype=np.float32))
    with pytest.raises(TapeError, match=r"cotangent of kind Fraction: must be float64, .* \[E3\]"):
        tape.backward(y, objects(Fraction, 1, 2, 3))
    with pytest.raises(TapeError, match=r"tangent of node 0 shape=\(1,\): must be \(3,\), .* \[E3\]"):
        tape.jvp(y, {x: np.ones(1)})
    with pytest.raises(TapeError, match=r"tangent of node 1 \('exp'\): only leaves can be given a tangent \[E3\]"):
        tape.jvp(y, {y: np.ones(3)})


def test_E4_only_one_number_may_leave_its_cotangent_out() -> None:
    tape, x = Tape().leaf(np.ones(3))
    with pytest.raises(TapeError, match=r"output=0 of shape \(3,\): needs a cotangent.* \[E4\]"):
        tape.backward(x)


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (np.ones(2), np.ones(2, dtype=np.float32), "float64 and float32"),
        (np.ones(2), objects(Fraction, 1, 2), "float64 and Fraction"),
        (objects(fmpq, 1, 2), objects(Fraction, 1, 2), "fmpq and Fraction"),
        (objects(arb, 1, 2), objects(fmpq, 1, 2), "arb and fmpq"),
    ],
)
def test_E5_mixed_scalar_kinds(first: Any, second: Any, names: str) -> None:
    tape, x = Tape().leaf(first)
    tape, y = tape.leaf(second)
    with pytest.raises(TapeError, match=rf"tape.add: inputs of kinds {names}: all inputs must be of one kind.* \[E5\]"):
        tape.add(x, y)


def test_E5_mixed_scalars_in_one_leaf() -> None:
    with pytest.raises(TapeError, match=r"value with scalars of kinds Fraction, fmpq: all must be of one kind \[E5\]"):
        Tape().leaf(np.array([Fraction(1), fmpq(2)], dtype=object))
    tape, x = Tape().leaf(np.array([Fraction(1, 2), 3], dtype=object))
    assert [type(v) for v in tape.value(x)] == [Fraction, Fraction]
    tape, y = tape.leaf(np.array([1, 2], dtype=object))
    assert [type(v) for v in tape.value(y)] == [fmpq, fmpq]


def test_E6_an_operator_without_the_triple() -> None:
    tape, x = Tape().leaf(np.ones(2))
    fixed, y = Tape().leaf(np.ones(2), requires_grad=False)
    for base, id in ((tape, x), (fixed, y)):
        with pytest.raises(TapeError, match=r"lacks jvp, vjp; an operator needs forward, jvp and vjp \[E6\]"):
            base.apply(np.exp, id)
    with pytest.raises(TapeError, match=r"lacks __call__, jvp, vjp; .* \[E6\]"):
        tape.apply(7, x)


def test_I1_integers_have_no_derivative() -> None:
    with pytest.raises(DTypeError, match=r"tape.leaf: value dtype=int64: has no derivative; use astype.* \[I1\]"):
        Tape().leaf(np.arange(3))
    tape, x = Tape().leaf(np.arange(4), requires_grad=False)
    tape, y = tape.max_pool(x, (2,))
    assert tape.value(y).tolist() == [1, 3]


def test_a_scalar_leaf_of_any_python_kind() -> None:
    for value in (2.0, np.float32(2), Fraction(2), fmpq(2), arb(2)):
        tape, x = Tape().leaf(value)
        tape, y = tape.mul(x, x)
        assert tape.backward(y)[x] == 4


ONE_INPUT = ("neg", "relu", "exp", "log", "tanh", "sigmoid", "sum", "mean", "flatten", "transpose", "log_softmax")
TWO_INPUTS = ("add", "sub", "mul", "div", "matmul", "mse", "linear")


@pytest.mark.parametrize("name", [*ONE_INPUT, *TWO_INPUTS])
def test_E1_an_absent_id_is_refused_in_the_methods_name(name: str) -> None:
    tape, x = Tape().leaf(np.ones((2, 2)))
    pairs = [(None,)] if name in ONE_INPUT else [(None, None), (x, None), (None, x)]
    for ids in pairs:
        with pytest.raises(TapeError, match=rf"^tape\.{name.replace('mse', 'mse_loss')}: ids=.*None.*\[E1\]$"):
            getattr(tape, name)(*ids)


def test_E1_an_absent_id_of_the_other_methods() -> None:
    tape, x = Tape().leaf(np.ones((1, 2, 2)))
    tape, w = tape.leaf(np.ones((1, 1, 1, 1)))
    calls = [
        lambda: tape.conv2d(None, None, x),
        lambda: tape.conv2d(w, None, None),
        lambda: tape.max_pool2d(None, 2),
        lambda: tape.avg_pool2d(None, 2),
        lambda: tape.global_avg_pool(None),
        lambda: tape.reshape(None, (4,)),
        lambda: tape.index(None, 0),
        lambda: tape.power(None, 2),
        lambda: tape.concatenate([x, None]),
        lambda: tape.cross_entropy(None, np.array([0])),
        lambda: tape.apply(hu.MaxPool((2, 2)), None),
        lambda: tape.backward(None),
        lambda: tape.value(None),
        lambda: tape.jvp(None, {}),
        lambda: tape.jvp(x, {None: np.ones((1, 2, 2))}),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(TapeError) as caught:
            call()
        assert caught.value.label == "E1", number
    assert tape.conv2d(w, None, x)[1] == 2  # a bias may be absent
