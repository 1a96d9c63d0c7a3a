import json

from framebench import adapters
from framebench.suite.case import Case

run = adapters.load(Case.from_id("transformer/torch/eval/no_grad/b5/tiny"))
run.build()
run.step()
losses = run.sample_losses()
batch_loss = run.loss()
print(json.dumps([losses, batch_loss]))
