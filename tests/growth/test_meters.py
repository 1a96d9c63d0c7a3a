"""Memory that is neither malloc's nor private is read, too: shared memory, and that of child
processes.
"""

import subprocess
import sys
from multiprocessing import shared_memory

import numpy as np
import pytest

from framebench.growth import meters, table
from framebench.growth.record import Leftover
from tests.growth.test_table import FLAT, STEPS, make_growth
from tests.marks import needs_host_peak

MIB = 2**20
HOLDS = (
    "import sys; held = bytearray(b'x') * int(sys.argv[1]); print('there', flush=True); "
    "sys.stdin.read()"
)


def test_shared_memory_is_counted():
    shared_before = meters.read_shared()
    private_before = meters.read_private()
    block = shared_memory.SharedMemory(create=True, size=8 * MIB)
    try:
        block.buf[:] = b"x" * (8 * MIB)
        assert 8 * MIB <= meters.read_shared() - shared_before < 9 * MIB
        assert meters.read_private() - private_before < 4 * MIB
    finally:
        block.close()
        block.unlink()


def test_memory_of_child_processes_is_counted():
    before = meters.read_children()
    command = [sys.executable, "-c", HOLDS, str(32 * MIB)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "there\n"
        assert 32 * MIB <= meters.read_children() - before < 64 * MIB
        child.communicate("")
    assert meters.read_children() < before + 16 * MIB, "others may have grown meanwhile"


@pytest.mark.parametrize(
    ("kept", "shared", "verdict"),
    [
        (2**18, FLAT, "undecided"),
        (2**18, FLAT + 2**18 * np.arange(STEPS), "grows"),
        (100, FLAT, "does not grow"),
        (None, FLAT, "does not grow"),
    ],
)
def test_leaked_objects_must_agree_with_the_readings(kept, shared, verdict):
    row = Leftover(
        kind="storage", what="zeros", made_at="step.py:7", per_step=1.0, bytes_per_step=kept
    )
    growth = make_growth(host_malloc=FLAT, host_shared=shared).model_copy(update={"kept": (row,)})
    assert table.judge(growth) == verdict
    notes = table.tabulate_slopes(growth).notes
    assert any("do not agree" in note for note in notes) == (verdict == "undecided")


@needs_host_peak
def test_the_rise_of_a_step_is_read_after_its_memory_was_freed():
    (read_rise,) = meters.make_rise_meters().values()
    read_rise()
    block = np.ones(2**26, np.uint8)
    del block
    large = read_rise()
    assert 0.9 * 2**26 < large < 1.5 * 2**26
    assert read_rise() < 2**24, "each reading begins the next step"
