"""Input pipelines for the scenario `pipeline`: raw images, in memory or in a memory-mapped file, prepared in NumPy."""

from __future__ import annotations

import os
import queue
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from framebench.adapters.proof import Evidence, Proof, expect
from framebench.models.spec import SEED, STREAM
from framebench.suite.case import Case

Put = Callable[..., Any]  # images and labels -> a batch, as the framework takes it
MAPPED = ("memmap", "prefetch", "pinned", "reused")  # from a memory-mapped file
THREADED = ("prefetch", "pinned")  # by a thread


class Loader:
    """Batches in a fixed order, over and over.

    The modes are `iterator`, `whole`, `whole_every_step`, `memmap`, `prefetch`, `pinned` and `reused` (see the rows of
    `framebench/strategies/scenarios.py`). With `pinned` the thread calls `put` too, and the step takes what `put` returned
    through `arrive`.
    """

    def __init__(self, case: Case, mode: str, put: Put, arrive: Put | None = None) -> None:
        assert case.spec.raw_images
        assert case.spec.prepare
        self.batch, self.mode, self.put, self.prepare = case.batch, mode, put, case.spec.prepare
        self.arrive = arrive
        rng = np.random.default_rng([SEED, 2, case.batch])
        self.images, self.labels = case.spec.raw_images(case.config, STREAM * case.batch, rng)
        if mode in MAPPED:
            self.images = _on_disk(self.images)
        self.made = 0  # batches prepared
        self.buffers: set[int] = set()  # where they were prepared into
        self.threads: set[int] = set()  # who prepared them
        self.reused: np.ndarray | None = None
        self.batches = self.source()

    def source(self) -> Iterator[Any]:
        """Return the batches as the mode makes them."""
        order = cycle(range(STREAM))
        if self.mode == "whole":
            return cycle(self.every_batch())
        if self.mode == "whole_every_step":
            return (self.every_batch()[i] for i in order)
        if self.mode == "pinned":
            assert self.arrive
            return prefetch((self.put(*self.make(i)) for i in order), self.arrive)
        if self.mode == "prefetch":
            return prefetch(_made_for(weakref.ref(self)), self.put)
        return (self.put(*self.make(i)) for i in order)

    def every_batch(self) -> list[Any]:
        """Prepare all batches."""
        return [self.put(*self.make(i)) for i in range(STREAM)]

    def next(self) -> Any:
        """Return the next batch."""
        return next(self.batches)

    def make(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Prepare batch number i."""
        rows = slice(i * self.batch, (i + 1) * self.batch)
        x = self.prepare(np.asarray(self.images[rows]))
        if self.mode == "reused":
            if self.reused is None:
                self.reused = np.empty_like(x)
            np.copyto(self.reused, x)
            x = self.reused
        self.made += 1
        self.buffers.add(x.ctypes.data)
        self.threads.add(threading.get_ident())
        return x, self.labels[rows]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the raw images, wherever they are."""
        return self.images.nbytes

    def count(self) -> Evidence:
        """Return how the batches so far were prepared."""
        counts = {"batches_prepared": self.made, "buffers": len(self.buffers), "raw_bytes": self.nbytes}
        return counts | {"memory_mapped": self.mapped, "beside_the_step": self.beside()}

    @property
    def mapped(self) -> bool:
        """Return whether the raw images are in a memory-mapped file."""
        return isinstance(self.images, np.memmap)

    def beside(self) -> bool:
        """Return whether another thread than the one that steps prepares the batches."""
        return threading.get_ident() not in self.threads


def expect_loader(mode: str) -> Proof:
    """Return what `Loader.counted` must say of this mode."""
    proof = expect(memory_mapped=mode in MAPPED, beside_the_step=mode in THREADED)
    if mode == "whole":
        proof &= expect(batches_prepared=STREAM)
    elif mode == "reused":
        proof &= expect(buffers=1)
    return proof


def _made_for(loader: weakref.ref[Loader]) -> Iterator[Any]:
    """Yield all batches, over and over, while somebody else has the loader.

    A thread that waits to hand one over, as it does for ever once the case is done, would keep the adapter and its weights.
    """
    for i in cycle(range(STREAM)):
        present = loader()
        if present is None:
            return
        batch = present.make(i)
        del present
        yield batch


def _on_disk(images: np.ndarray) -> np.memmap:
    """Return the same array as a memory-mapped file, which is gone when its last user is."""
    folder = tempfile.mkdtemp(prefix="framebench-")
    path = Path(folder) / "images"
    images.tofile(path)
    mapped = np.memmap(path, images.dtype, "r", shape=images.shape)
    path.unlink()  # the mapping stays
    os.rmdir(folder)
    return mapped


def prefetch(prepared: Iterator[tuple[Any, ...]], put: Put) -> Iterator[Any]:
    """Yield batches that a thread, which may use every core, prepares one ahead.

    What it raises is raised by the step that waits for its batch.
    """
    waiting: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=1)

    def work() -> None:
        # Linux pins threads, and a new one inherits its maker's core: there it would only take turns with the step. The step's
        # own thread stays where the timing worker was pinned
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(threading.get_native_id(), range(os.cpu_count() or 1))
        try:
            for batch in prepared:
                waiting.put((batch, None))
        except BaseException as error:
            waiting.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    while True:
        batch, error = waiting.get()
        if error is not None:
            raise error
        yield put(*batch)
