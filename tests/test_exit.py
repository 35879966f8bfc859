"""Python may end while kernels run on other threads: the process ends in order."""

import subprocess
import sys

import pytest

DAEMON = """
import threading, time
import numpy as np, halfulp as hu

x = np.ones((4, 16, 256, 256), np.float32)
hu.max_pool2d(x, 3, 2, 1)
begun = threading.Event()

def forever():
    while True:
        begun.set()
        hu.max_pool2d(x, 3, 2, 1)

for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
begun.wait()
time.sleep(0.05)
print("ends")
"""

FORKED = """
import os, threading, time
import numpy as np, halfulp as hu

x = np.ones((8, 64, 512, 512), np.float32)
running = threading.Thread(target=lambda: hu.max_pool2d(x, 31, 1, 15), daemon=True)
running.start()
time.sleep(0.05)
child = os.fork()
if child:
    running.join()
    raise SystemExit(os.waitpid(child, 0)[1])
print("ends")
"""

XLA = """
import jax, numpy as np, halfulp.jax as hj

assert len(jax.devices()) == 2
x = np.ones((64, 64, 64), np.float32)
work = jax.jit(lambda x: hj.smooth_max_pool2d(x, 3, 2.0))
for device in jax.devices():
    for _ in range(3):
        work(jax.device_put(x, device))
print("ends")
"""


def end_of(code, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


def test_daemon_threads_may_be_inside_a_kernel():
    done = end_of(DAEMON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_a_forked_child_does_not_wait_for_threads_it_does_not_have():
    done = end_of(FORKED)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


def test_xla_may_be_inside_a_call():
    done = end_of(XLA, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
