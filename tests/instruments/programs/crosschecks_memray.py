import json
import sys
import tempfile
from pathlib import Path

sys.path.append(sys.argv[2])  # memray lies in the control environment, of the same Python
import memray

from framebench import adapters
from framebench.suite.selectors import parse

adapter = adapters.load(parse(sys.argv[1]))
adapter.build()
for _ in range(2):
    adapter.step()
adapter.release()
# a step begins with it, and memray does not see what was there before it looked go away
adapter.optimizer.zero_grad()
live = adapter.live_bytes()
file = Path(tempfile.mkdtemp()) / "trace"
with memray.Tracker(file):
    adapter.step()
print(json.dumps(live + memray.FileReader(file).metadata.peak_memory))
