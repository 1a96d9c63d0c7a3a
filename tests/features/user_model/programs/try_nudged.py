"""How far outputs of an evaluation move with weights that are rounded otherwise, by precision: try_nudged.py FRAMEWORK FILE."""

import json
import os
import sys
from pathlib import Path

from framebench.features.user_model.reference import survey
from framebench.suite.case import Case

framework, file = sys.argv[1:]
folder = Path(file).parent
os.environ["FRAMEBENCH_OWN"] = str(folder)
(folder / "own.json").write_text(json.dumps({"file": file, "framework": framework, "batch": 4, "defined": []}))
survey(Case.of(f"own/{framework}/eval/no_grad/b4/mine"), lambda message: None)
(errors,) = json.loads((folder / "honest.json").read_text())["machines"].values()
each = {precision: next(iter(keys.values())) for precision, keys in errors["errors"][framework].items()}
print(json.dumps({precision: kinds["output"]["logits"][1] for precision, kinds in each.items()}))
