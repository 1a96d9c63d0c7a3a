import json
import sys

from framebench.adapters.jax.hlo import parse_assignment, parse_instructions
from framebench.explain.jax_buffers import Walk, share

program, entry = parse_instructions(sys.argv[1])
buffers, allocations = parse_assignment(sys.argv[2])
walk = Walk(program, buffers, False)
result = walk.run(entry, [])
values = [b for positions in buffers.values() for b in positions.values()]
share(values)
print(json.dumps([{n: [b.born, b.died, b.layer] for n, p in buffers.items() for b in p.values()}, entry, len(allocations)]))
