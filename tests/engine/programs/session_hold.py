import subprocess
import sys
import time
from pathlib import Path

from framebench.engine.session import Busy, lock_results

results, start = Path(sys.argv[1]), float(sys.argv[2])
time.sleep(max(0, start - time.time()))
try:
    with lock_results(results):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print("holds", child.pid, flush=True)
        sys.stdin.read()
        child.kill()
except Busy as busy:
    print("busy", busy, flush=True)
