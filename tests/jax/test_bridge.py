"""The bridge itself: the targets, errors at trace time, sharding, and the import without jax."""

import inspect
import subprocess
import sys
from fractions import Fraction

import flint
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import halfulp as hu
import halfulp.jax
from halfulp.jax._codec import decode, encode


def test_calls_go_through_jax_ffi():
    text = jax.jit(lambda x: halfulp.jax.max_pool2d(x, 2)).lower(jnp.zeros((4, 4))).as_text()
    assert "stablehlo.custom_call @halfulp_max_forward" in text
    text = jax.jit(lambda x: halfulp.jax.avg_pool2d(x, 2)).lower(jnp.zeros((4, 4))).as_text()
    assert "stablehlo.custom_call @halfulp" in text
    assert "callback" not in text


def test_an_absent_statistic_is_refused_as_on_numpy_arrays():
    x, ones = jnp.ones((2, 3, 4)), jnp.ones(3)
    for given in ({}, {"running_mean": ones}, {"running_var": ones}):
        with pytest.raises(hu.ShapeError, match=r"None: must be \(3,\), one per channel, unless training=True \[R4\]"):
            halfulp.jax.batch_norm(x, **given)


@pytest.mark.parametrize(
    "op",
    [
        hu.MaxPool((3, 3), stride=2, padding=((0, 1), (2, 0)), nan="ignore"),
        hu.SmoothMaxPool((2,), beta=0.1),
        hu.SmoothMaxPool((2,), beta=Fraction(1, 3)),
        hu.SmoothMaxPool((2,), beta=-2),
        hu.AdaptiveAvgPool((None, 3)),
        hu.Conv(2, padding="same_lower", groups=3, precision="fast"),
        hu.ConvTranspose(1, stride=2, output_padding=1),
        hu.GlobalMaxPool(3, keepdims=False),
    ],
    ids=repr,
)
def test_records_survive_as_text(op):
    assert decode(encode(op)) == op


def test_rational_beta_of_flint_is_carried_exactly():
    assert decode(encode(hu.SmoothMaxPool((2,), beta=flint.fmpq(1, 3)))).beta == Fraction(1, 3)


def test_a_record_that_no_program_can_carry_J2():
    op = hu.SmoothMaxPool((2,), beta=flint.arb(2).sqrt())
    with pytest.raises(hu.PolicyError, match=r"smooth_max_pool1d: beta=.*must be a number or a string.*\[J2\]"):
        halfulp.jax.apply(op, jnp.zeros(4))


def test_other_platforms_are_refused_J1():
    function = jax.jit(lambda x: halfulp.jax.max_pool2d(x, 2))
    with pytest.raises(hu.PolicyError, match=r"max_pool2d: platform='cuda': runs on the CPU: .* \[J1\]"):
        function.trace(jnp.zeros((4, 4))).lower(lowering_platforms=("cuda",))


def test_errors_come_when_the_function_is_traced():
    with pytest.raises(hu.ShapeError, match="W5"):
        jax.jit(lambda x: halfulp.jax.max_pool2d(x, 5))(jnp.zeros((4, 4)))
    with pytest.raises(hu.DTypeError, match="I1"):
        halfulp.jax.avg_pool1d(jnp.zeros(4, jnp.int32), 2)
    with pytest.raises(hu.DTypeError, match="I2"):
        halfulp.jax.conv1d(jnp.zeros((1, 4)), jnp.zeros((1, 1, 2), jnp.float16))
    with pytest.raises(hu.ShapeError, match="C4"):
        halfulp.jax.conv1d(jnp.zeros((1, 4)), jnp.zeros((1, 2, 2)))


def test_nan_raise_is_an_error_of_the_running_program():
    function = jax.jit(lambda x: halfulp.jax.max_pool1d(x, 2, nan="raise"))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"max_pool1d: nan='raise'.*\[P3\]"):
        function(jnp.array([1.0, jnp.nan])).block_until_ready()
    average = jax.jit(lambda x: halfulp.jax.apply(hu.GlobalMaxPool(1, nan="raise"), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="P3"):
        average(jnp.array([1.0, jnp.nan])).block_until_ready()


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
import halfulp.jax as hj
from jax.sharding import NamedSharding, PartitionSpec as P

assert len(jax.devices()) == 2
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
rng = np.random.default_rng(0)
x = rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
w = rng.standard_normal((2, 3, 3, 3)).astype(np.float32)

def network(x, w):
    hidden = hj.smooth_max_pool2d(hj.conv2d(x, w, padding=1), 2, 2.0)
    return hj.global_avg_pool2d(hj.max_pool2d(hidden, 2, 1), keepdims=False)

def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and (a.view(np.uint32) == b.view(np.uint32)).all()

sharded = jax.jit(jax.shard_map(network, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")))
same(sharded(x, w), network(x, w))
same(jax.jvp(sharded, (x, w), (x, w))[1], jax.jvp(network, (x, w), (x, w))[1])
loss = lambda f: lambda x, w: f(x, w).sum()
dx, dw = jax.jit(jax.grad(loss(sharded), (0, 1)))(x, w)
parts = [jax.grad(loss(network), (0, 1))(part, w) for part in (x[:2], x[2:])]
same(dx, np.concatenate([part[0] for part in parts]))
same(dw, np.asarray(parts[0][1]) + np.asarray(parts[1][1]))
placed = jax.device_put(x, NamedSharding(mesh, P("i")))
same(jax.jit(network)(placed, w), network(x, w))
print("sharded as one")
"""


def run(code, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        check=False,
    )


def test_shard_map_on_two_host_devices():
    done = run(SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "sharded as one"


def test_import_without_jax_says_what_to_install():
    done = run("import sys; sys.modules['jax'] = None\nimport halfulp.jax")
    assert done.returncode != 0
    assert "ImportError: halfulp.jax needs the package jax: pip install 'halfulp[jax]'" in done.stderr


def test_import_halfulp_does_not_import_jax():
    done = run("import sys, halfulp; print('jax' in sys.modules); import halfulp.jax; print('jax' in sys.modules)")
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_every_functional_form_is_there():
    from halfulp import functional

    assert set(functional.__all__) <= set(halfulp.jax.__all__)
    for name in functional.__all__:
        function = getattr(halfulp.jax, name)
        assert inspect.signature(function) == inspect.signature(getattr(functional, name))
        assert "On JAX arrays" in function.__doc__


@pytest.mark.parametrize("threads", [1, 2])
def test_thread_count_does_not_matter(threads, same):
    x = np.random.default_rng(0).standard_normal((4, 8, 17, 19)).astype(np.float32)
    before = hu.get_num_threads()
    hu.set_num_threads(threads)
    try:
        found = jax.jit(jax.grad(lambda x: halfulp.jax.avg_pool2d(x, 3, 2, 1).sum()))(x)
    finally:
        hu.set_num_threads(before if before else 0)
    op = hu.AvgPool((3, 3), 2, 1)
    assert same(found, op.vjp(x)[1](np.ones(op.output_shape(x.shape), np.float32))[0])
