import json
import os
import sys
from pathlib import Path

from framebench.adapters.torch import user_model
from framebench.suite.case import Case
from framebench.user_file.reference import survey
from framebench.worker.worker import describe_failure

said = {}
for name, file in json.loads(sys.argv[1]).items():
    folder = Path(file).parent
    os.environ["FRAMEBENCH_OWN"] = str(folder)
    (folder / "own.json").write_text(
        json.dumps({"file": file, "framework": "torch", "batch": 4, "defined": []})
    )
    user_model.user.cache_clear()
    try:
        survey(Case.from_id("own/torch/train/fp32/b4/mine"), lambda message: None)
        found = json.loads((folder / "own.json").read_text())
        said[name] = "nothing: " + ", ".join(found["undetermined"]) + found["uncut"]
        said[name] += (
            f" | {found['accumulation']} | {found['without_gradient']['first']} without a gradient"
        )
    except (Exception, SystemExit) as error:
        told = describe_failure(error)
        said[name] = "OOM " * told["oom"] + told["blamed"]
print(json.dumps(said))
