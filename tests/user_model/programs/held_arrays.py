"""`FRAMEWORK FILE`: the bytes that a file's baseline has alive, what the file holds, and peaks."""

import importlib
import json
import sys
from pathlib import Path

from framebench import adapters
from framebench.worker.worker import measure_peaks
from tests.user_model.user_files import use_file

framework, file = sys.argv[1:]
importlib.import_module(f"framebench.adapters.{framework}")
adapter = adapters.load(use_file(Path(file), 4, framework))
adapter.build()
for _ in range(3):
    peaks = measure_peaks(adapter)
adapter.release()
holders = adapter.untracked_bytes()
print(json.dumps({"live": adapter.live_bytes(), "holders": holders, "peaks": peaks}))
