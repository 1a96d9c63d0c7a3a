"""A file surveyed twice: the keys of its references after each."""

import json
import sys
from pathlib import Path

from framebench.features.user_model.reference import survey
from framebench.suite.case import Case

folder, framework = Path(sys.argv[1]).parent, sys.argv[2]
facts = {"file": sys.argv[1], "framework": framework, "batch": 4, "defined": ["loss", "optimizer"]}
(folder / "own.json").write_text(json.dumps(facts))
keys = []
for _ in range(2):
    survey(Case.of(f"own/{framework}/train/fp32/b4/mine"), lambda message: None)
    keys.append(sorted(json.loads((folder / "golden.json").read_text())["values"]))
print(json.dumps(keys))
