"""Bad input, concurrent calls, forks, interrupts, memory: a clear error or the right answer, and life goes on."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import halfulp as hu
from halfulp import _core
from tests import strategies as draw

OP = hu.MaxPool((3, 3), stride=2, padding=1)
X = np.random.default_rng(0).standard_normal((4, 16, 33, 35), dtype=np.float32)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((4, 4), np.complex64),
        np.zeros((4, 4), [("a", "f4")]),
        np.zeros((4, 4), "U3"),
        np.zeros((4, 4), "M8[s]"),
        np.zeros((4, 4), np.longdouble),
    ],
    ids=lambda x: str(x.dtype),
)
def test_i1_other_element_types_are_refused(x: Any) -> None:
    with pytest.raises(hu.DTypeError, match=r"max_pool2d: input dtype=.* \[I1\]"):
        OP(x)


def test_i1_integers_have_no_derivative() -> None:
    x = np.zeros((4, 4), np.int32)
    with pytest.raises(hu.DTypeError, match=r"max_pool2d: input dtype=int32: .*astype.* \[I1\]"):
        OP.jvp((x,), (x,))
    with pytest.raises(hu.DTypeError, match=r"astype.* \[I1\]"):
        OP.vjp(x)


def test_i3_one_input_is_taken() -> None:
    with pytest.raises(hu.ShapeError, match=r"\[I3\]"):
        OP(X, X)
    with pytest.raises(hu.ShapeError, match=r"\[I3\]"):
        OP.vjp()


def test_i4_a_tangent_is_like_its_primal() -> None:
    with pytest.raises(hu.ShapeError, match=r"tangent shape=\(4, 16, 33, 34\): must be \(4, 16, 33, 35\) \[I4\]"):
        OP.jvp((X,), (X[..., 1:],))
    with pytest.raises(hu.DTypeError, match=r"tangent dtype=float64: must be float32 \[I4\]"):
        OP.jvp((X,), (X.astype(np.float64),))


def test_i5_a_cotangent_is_like_the_output() -> None:
    output, pullback = OP.vjp(X)
    with pytest.raises(hu.ShapeError, match=r"cotangent shape=\(16, 17, 18\): must be .* \[I5\]"):
        pullback(output[0])
    with pytest.raises(hu.DTypeError, match=r"cotangent dtype=complex64: must be float32 \[I5\]"):
        pullback(output.astype(np.complex64))


def test_i7_an_output_that_no_address_reaches_is_refused() -> None:
    x = np.broadcast_to(np.float32(1), (1 << 40, 4, 4))
    with pytest.raises(hu.ShapeError, match=r"\[I7\]"):
        hu.MaxPool((1, 1), padding=1 << 24)(x)


def test_w5_a_window_larger_than_the_input_is_refused() -> None:
    with pytest.raises(hu.ShapeError, match=r"max_pool2d: kernel_size=\(3, 3\).*\(2, 4\) \[W5\]"):
        hu.MaxPool((3, 3))(np.zeros((2, 4)))


def test_w7_too_few_axes_are_refused() -> None:
    with pytest.raises(hu.ShapeError, match=r"max_pool2d: input shape=\(5,\).* \[W7\]"):
        OP(np.zeros(5))


def test_p3_the_first_nan_is_named() -> None:
    x = np.zeros((2, 3, 5, 6))
    x[1, 2, 3, 4] = x[1, 0, 4, 2] = np.nan
    op = hu.MaxPool((2, 2), nan="raise")
    for call in (op, op.vjp, lambda a: op.jvp((a,), (a,))):
        with pytest.raises(hu.PolicyError, match=r"max_pool2d: nan='raise': .*\(1, 0, 4, 2\).* \[P3\]"):
            call(x)
    assert np.array_equal(op(np.zeros((4, 4))), np.zeros((2, 2)))


def test_empty_arrays_have_empty_outputs() -> None:
    assert OP(np.zeros((0, 3, 5, 5))).shape == (0, 3, 3, 3)
    output, pullback = OP.vjp(np.zeros((2, 0, 5, 5)))
    assert pullback(output)[0].shape == (2, 0, 5, 5)
    assert np.array_equal(hu.GlobalMaxPool(2)(np.zeros((3, 0, 4))), np.zeros((3, 1, 1)))


def test_a_pullback_does_not_look_at_the_input_again() -> None:
    x = X.copy()
    output, pullback = OP.vjp(x)
    (expected,) = pullback(output)
    x[...] = 0
    draw.assert_same_bits(pullback(output)[0], expected, "after a change of the input")


def test_a_pullback_keeps_one_byte_per_output() -> None:
    output, pullback = hu.MaxPool((16, 16), stride=1).vjp(X)
    assert pullback.nbytes == output.size
    output, pullback = hu.MaxPool((16, 17), stride=1).vjp(X)
    assert pullback.nbytes == 2 * output.size


def test_sixteen_threads_at_once() -> None:
    expected = OP(X)
    _, pullback = OP.vjp(X)
    expected_dx = pullback(expected)[0]

    def call(number: int) -> bool:
        op = hu.MaxPool((3, 3), stride=2, padding=1, ceil_mode=number % 2 == 0)
        output, pull = op.vjp(X)
        if number % 2:
            draw.assert_same_bits(output, expected, "in a thread")
            draw.assert_same_bits(pull(output)[0], expected_dx, "in a thread")
        return bool(output.shape[0] == 4)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(200)))


def _in_child(queue: Any, expected: Any) -> None:
    queue.put(bool(np.array_equal(OP(X), expected)) and hu.get_num_threads() >= 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")  # JAX warns, too
def test_a_forked_child_works() -> None:
    hu.set_num_threads(4)
    try:
        big = np.random.default_rng(1).standard_normal((8, 64, 56, 56), dtype=np.float32)
        OP(big)  # the parent's threads exist
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(queue, OP(X)))
        child.start()
        assert queue.get(timeout=60)
        child.join(60)
        assert child.exitcode == 0
    finally:
        hu.set_num_threads(0)


def _work(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        OP.vjp(X)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_an_interrupt_leaves_the_library_usable() -> None:
    expected = OP(X)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs that ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            _work(30)
    finally:
        signal.signal(signal.SIGINT, before)
    draw.assert_same_bits(OP(X), expected, "after an interrupt")


def test_threadpoolctl_is_honoured() -> None:
    with threadpoolctl.threadpool_limits(1, user_api="openmp"):
        assert hu.get_num_threads() == 1
    hu.set_num_threads(3)
    assert hu.get_num_threads() == 3
    hu.set_num_threads(0)


@pytest.mark.parametrize("count", [-1, 1.5, True, "2"])
def test_a_number_of_threads_is_a_natural_number(count: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        hu.set_num_threads(count)


def test_memory_does_not_grow_over_many_shapes() -> None:
    def calls(count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(3, 60, (count, 2)).tolist()
        for height, width in sizes:
            hu.max_pool2d(np.empty((1, height, width), np.float32), 3, 2, 1)

    calls(2000, 0)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(20_000, 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


def test_kept_memory_is_bounded() -> None:
    big = np.zeros((1, 1, 3000, 3000), np.float32)
    for _ in range(3):
        OP(big)
    assert 0 < _core.get_kept_memory() <= 256 << 20
    _core.set_kept_memory_limit(0)
    assert _core.get_kept_memory() == 0
    OP(big)
    assert _core.get_kept_memory() == 0
    _core.set_kept_memory_limit(256 << 20)


def test_a_large_output_behaves_like_any_array() -> None:
    output = OP(np.zeros((1, 1, 1500, 1500), np.float32))
    assert output.flags.owndata
    assert output.flags.writeable
    output.resize((10, 10), refcheck=False)
    assert output.shape == (10, 10)
    assert not output.any()
