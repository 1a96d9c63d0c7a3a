"""The input pipelines, without a framework."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from framebench.adapters.loading import Loader, expect_loader, prefetch
from framebench.models.spec import STREAM_BATCHES
from framebench.suite.case import Case

# a thread that dies without its error would leave the step waiting for ever
pytestmark = pytest.mark.timeout(300)

CASE = Case.from_id("resnet50/torch/pipeline/memmap/b2/tiny")
# whether a mode reads a mapped file and prepares in a thread, and the batches that 3 steps prepare
MODES = {
    "iterator": (False, False, 3),
    "whole": (False, False, STREAM_BATCHES),
    "whole_every_step": (False, False, 3 * STREAM_BATCHES),
    "memmap": (True, False, 3),
    "reused": (True, False, 3),
    "prefetch": (True, True, None),
}


def copy_batch(x: np.ndarray, y: np.ndarray) -> Any:
    return x.copy(), y.copy()


@pytest.mark.parametrize("mode", MODES)
def test_a_loader_is_proven_for_its_own_mode_alone(mode):
    loader = Loader(CASE, mode, copy_batch)
    for _ in range(3):
        loader.next()
    is_mapped, is_threaded, batches = MODES[mode]

    counted = loader.count()

    assert (counted["memory_mapped"], counted["beside_the_step"]) == (is_mapped, is_threaded)
    assert batches in (None, loader.batches_prepared)
    for other in MODES:
        # without a thread a mapped file or a single batch is what another mode has as well
        is_alike = MODES[other][:2] == (is_mapped, is_threaded)
        if other == mode or not is_alike:
            assert expect_loader(other).judge(counted).proven == (other == mode)


def test_all_modes_give_the_same_batches():
    loaders = [Loader(CASE, mode, copy_batch) for mode in MODES]
    for _ in range(3):
        (images, labels), *others = [loader.next() for loader in loaders]
        for other_images, other_labels in others:
            assert np.array_equal(images, other_images)
            assert np.array_equal(labels, other_labels)


def test_a_thread_that_waits_keeps_no_loader_alive():
    """It would keep an adapter with its weights, to which the loader refers."""
    loader = Loader(CASE, "prefetch", copy_batch)
    loader.next()
    gone = weakref.ref(loader)
    del loader
    end = time.monotonic() + 60
    # while the thread prepares a batch it holds the loader, too
    while gone() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None


def test_an_error_in_the_thread_is_raised_by_the_step():
    """Otherwise running out of memory would be reported as a timeout."""

    def prepared():
        yield (1,)
        raise MemoryError(threading.current_thread().name)

    batches = prefetch(prepared(), lambda number: number)
    assert next(batches) == 1
    with pytest.raises(MemoryError) as error:
        next(batches)
    assert str(error.value) != threading.current_thread().name
