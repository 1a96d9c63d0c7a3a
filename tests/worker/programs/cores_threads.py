import os
import threading

from framebench.worker.worker import move_threads

os.sched_setaffinity(0, {int(os.environ["A"])})
stop = threading.Event()
threading.Thread(target=stop.wait).start()
move_threads({int(os.environ["B"])})
print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")])
stop.set()
