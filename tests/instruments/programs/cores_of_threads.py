"""Pin a process with a loader's thread to one core, then to another: `cores_of_threads.py CORE...`

The process may use the cores that are named, as under a user's taskset. Prints the cores of the
step's thread and of the loader's, before and after the second pin.
"""

import json
import os
import sys

from framebench.adapters.loading import prefetch
from framebench.instruments import cores


def prepare():
    while True:
        yield (sorted(os.sched_getaffinity(0)),)  # the calling thread's


def report_cores(batches):
    return {"step": sorted(os.sched_getaffinity(0)), "loader": next(batches)}


def main(allowed):
    os.sched_setaffinity(0, allowed)
    cores.pin(min(allowed))
    batches = prefetch(prepare(), lambda batch: batch)
    first = report_cores(batches)
    cores.pin(max(allowed))
    for _ in range(2):
        next(batches)  # may be prepared before the second pin
    print(json.dumps([first, report_cores(batches)]))


main([int(core) for core in sys.argv[1:]])
