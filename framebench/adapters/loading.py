"""Input pipelines of the scenario `pipeline`: raw images that NumPy prepares for each step."""

from __future__ import annotations

import queue
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np

from framebench.adapters.proof import Evidence, Proof, expect
from framebench.instruments import cores
from framebench.models.spec import SEED, STREAM_BATCHES
from framebench.suite.case import Case

Put = Callable[..., Any]  # returns a batch as the framework takes it, of images and labels
MAPPED = ("memmap", "prefetch", "pinned", "reused")  # modes that read a memory-mapped file
THREADED = ("prefetch", "pinned")  # modes in which a thread prepares the batches


class Loader:
    """Yield the `STREAM_BATCHES` batches of raw images in a fixed order, over and over.

    The modes are `iterator`, `whole`, `whole_every_step`, `memmap`, `prefetch`, `pinned` and
    `reused` (see the rows of `strategies/scenarios.toml`). With `pinned` the thread calls `put`
    too, and the step passes what `put` returned to `take`, which returns the batch.
    """

    def __init__(self, case: Case, mode: str, put: Put, take: Put | None = None) -> None:
        """Make the raw images and labels of all batches, in a mapped file if the mode has one."""
        assert case.workload_spec.raw_images
        assert case.workload_spec.prepare
        self.batch = case.batch
        self.mode = mode
        self.put = put
        self.take = take
        self.prepare = case.workload_spec.prepare
        rng = np.random.default_rng([SEED, 2, case.batch])
        self.images, self.labels = case.workload_spec.raw_images(
            case.config, STREAM_BATCHES * case.batch, rng
        )
        if mode in MAPPED:
            self.images = _map_to_file(self.images)
        self.batches_prepared = 0
        self.buffer_addresses: set[int] = set()  # of the prepared batches
        self.thread_ids: set[int] = set()  # of the threads that prepared them
        self.reused: np.ndarray | None = None
        self.batches = self.choose_batches()

    def choose_batches(self) -> Iterator[Any]:
        """Return the iterator of batches of this mode."""
        batch_numbers = cycle(range(STREAM_BATCHES))
        if self.mode == "whole":
            return cycle(self.put_every_batch())
        if self.mode == "whole_every_step":
            return (self.put_every_batch()[i] for i in batch_numbers)
        if self.mode == "prefetch":
            return prefetch(_prepare_while_used(weakref.ref(self)), self.put)
        batches = (self.put(*self.prepare_batch(i)) for i in batch_numbers)
        return prefetch(batches, self.take) if self.take else batches

    def put_every_batch(self) -> list[Any]:
        """Return all batches, prepared and put on the device."""
        return [self.put(*self.prepare_batch(i)) for i in range(STREAM_BATCHES)]

    def next(self) -> Any:
        """Return the next batch."""
        return next(self.batches)

    def prepare_batch(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return images and labels of batch number i, prepared in NumPy."""
        rows = slice(i * self.batch, (i + 1) * self.batch)
        x = self.prepare(np.asarray(self.images[rows]))
        if self.mode == "reused":
            if self.reused is None:
                self.reused = x
            np.copyto(self.reused, x)
            x = self.reused
        self.batches_prepared += 1
        self.buffer_addresses.add(x.ctypes.data)
        self.thread_ids.add(threading.get_ident())
        return x, self.labels[rows]

    def count(self) -> Evidence:
        """Return how the batches so far were prepared."""
        return {
            "batches_prepared": self.batches_prepared,
            "buffers": len(self.buffer_addresses),
            "memory_mapped": isinstance(self.images, np.memmap),
            "beside_the_step": threading.get_ident() not in self.thread_ids,
        }


def expect_loader(mode: str) -> Proof:
    """Return a proof that `Loader.count` shows this mode."""
    proof = expect(memory_mapped=mode in MAPPED, beside_the_step=mode in THREADED)
    if mode == "whole":
        proof &= expect(batches_prepared=STREAM_BATCHES)
    elif mode == "reused":
        proof &= expect(buffers=1)
    return proof


def _prepare_while_used(loader: weakref.ref[Loader]) -> Iterator[Any]:
    """Yield prepared batches over and over, as long as somebody else refers to the loader.

    Once the case is done, the thread waits for ever to hand a batch over. It must not keep the
    loader alive, and with it the adapter and its weights.
    """
    for i in cycle(range(STREAM_BATCHES)):
        used_loader = loader()
        if used_loader is None:
            return
        batch = used_loader.prepare_batch(i)
        del used_loader
        yield batch


def _map_to_file(images: np.ndarray) -> np.memmap:
    """Return the same array in a memory-mapped file, which is deleted with the array."""
    with tempfile.TemporaryFile() as file:
        images.tofile(file)
        return np.memmap(file, images.dtype, "r", shape=images.shape)


def prefetch(prepared: Iterator[tuple[Any, ...]], put: Put) -> Iterator[Any]:
    """Yield batches that a thread prepares one ahead, on any core that the process was given.

    An error in the thread is raised by the step that waits for its batch.
    """
    batch_or_error: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=1)

    def work() -> None:
        """Put each batch into the queue, or the error that ended the preparation."""
        # on the core to which the timing worker is pinned, the thread would take turns with steps
        cores.use_all_cores()
        try:
            for batch in prepared:
                batch_or_error.put((batch, None))
        except BaseException as error:
            batch_or_error.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    while True:
        batch, error = batch_or_error.get()
        if error is not None:
            raise error
        yield put(*batch)
