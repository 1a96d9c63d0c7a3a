"""Print when each buffer of a program is alive, the program's entry, and the number of
allocations.
"""

import json
import sys

from framebench.adapters.jax.hlo import parse_assignment, parse_instructions
from framebench.explain.jax_buffers import ProgramWalk, end_overwritten

program, entry = parse_instructions(sys.argv[1])
positions, allocations = parse_assignment(sys.argv[2])
walk = ProgramWalk(program, positions, trains=False)
walk.walk(entry, [])
end_overwritten([buffer for by_index in positions.values() for buffer in by_index.values()])
lives = {}
for instruction, by_index in positions.items():
    for buffer in by_index.values():
        lives[instruction] = [buffer.born, buffer.died, buffer.layer]
print(json.dumps([lives, entry, len(allocations)]))
