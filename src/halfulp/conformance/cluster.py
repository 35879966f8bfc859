"""The same campaign on a Dask cluster: each Dask worker runs subjects in an isolated process of its own."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from halfulp.conformance.pool import Crash, Done, Pool
from halfulp.conformance.subjects import SubjectError
from halfulp.conformance.units import Plan
from halfulp.conformance.worker import Task

__all__ = ["Cluster"]

_pools: dict[Any, Pool] = {}
"""On a Dask worker: the pool of each campaign, kept between tasks because frameworks take seconds to load."""


def _pool(plan: Plan, subjects: tuple[str, ...], timeout: float, memory: int | None) -> Pool:
    key = (plan, subjects, timeout, memory)
    if key not in _pools:
        _pools[key] = Pool(1, plan, subjects, timeout, memory)
        atexit.register(_pools[key].__exit__)
    return _pools[key]


def _events(
    task: Task, plan: Plan, subjects: tuple[str, ...], timeout: float, memory: int | None
) -> list[Done | Crash]:
    """Runs on a Dask worker: one task, and what happened on the way."""
    return list(_pool(plan, subjects, timeout, memory).run([task]))


def _versions(plan: Plan, subjects: tuple[str, ...], timeout: float, memory: int | None) -> Any:
    return _pool(plan, subjects, timeout, memory).versions()


def _close(plan: Plan, subjects: tuple[str, ...], timeout: float, memory: int | None) -> None:
    pool = _pools.pop((plan, subjects, timeout, memory), None)
    if pool is not None:
        atexit.unregister(pool.__exit__)
        pool.__exit__()


def _client_class(distributed: Any) -> Any:
    """The client, which has no type annotations of its own."""
    return distributed.Client


def _check_address(address: str) -> None:
    """Refuse what is not an address by a ValueError; a client that cannot read its own complains again at exit."""
    from distributed.comm.addressing import get_address_host_port

    get_address_host_port(address)


class Cluster:
    """A runner of tasks on the workers of a Dask scheduler."""

    def __init__(self, address: str, plan: Plan, subjects: tuple[str, ...], timeout: float, memory: int | None) -> None:
        try:
            import distributed
        except ImportError as error:
            raise SubjectError("--scheduler needs dask.distributed: pip install 'halfulp[dask]'") from error
        try:
            _check_address(address)
            self._client: Any = _client_class(distributed)(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SubjectError(f"--scheduler {address}: {error}") from error
        self._campaign = (plan, subjects, timeout, memory)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.run(_close, *self._campaign)
        self._client.close()

    def versions(self) -> dict[str, tuple[str, bool]]:
        """Subject -> (version, complete), as some worker has it."""
        found: dict[str, tuple[str, bool]] = self._client.submit(_versions, *self._campaign, pure=False).result()
        return found

    def run(self, tasks: Sequence[Task], stop: Callable[[], bool] = lambda: False) -> Iterator[Done | Crash]:
        """Do the tasks, in any order; what has not begun when ``stop`` says so is taken back."""
        import distributed

        as_completed: Any = distributed.as_completed  # without type annotations of its own
        futures = [self._client.submit(_events, task, *self._campaign, pure=False, retries=2) for task in tasks]
        for future in as_completed(futures, loop=self._client.loop):
            yield from future.result()
            if stop():
                self._client.cancel([f for f in futures if not f.done()])
                return
