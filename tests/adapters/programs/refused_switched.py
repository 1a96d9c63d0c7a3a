import json
import sys

from framebench import adapters
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import Case

options = {"chunked_loss": {"chunks": 8}, "distill": {}}
found = []
for order in (list(options), list(options)[::-1]):
    adapter = adapters.load(Case.from_id(f"transformer/{sys.argv[1]}/train/distill/b4/tiny"))
    try:
        for name in order:
            with adapter.ledger.acting_as(name):
                adapter.switches[name](adapter, **options[name])
    except IncompatibleStrategies as error:
        found.append(str(error))
print(json.dumps(found))
