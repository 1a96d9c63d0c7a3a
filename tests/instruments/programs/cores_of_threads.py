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


def main(allowed):
    os.sched_setaffinity(0, allowed)
    cores.pin(min(allowed))
    batches = prefetch(prepare(), lambda batch: batch)
    report = [(sorted(os.sched_getaffinity(0)), next(batches))]
    cores.pin(max(allowed))
    for _ in range(2):
        next(batches)  # may be prepared before the second pin
    report.append((sorted(os.sched_getaffinity(0)), next(batches)))
    print(json.dumps(report))


main([int(core) for core in sys.argv[1:]])
