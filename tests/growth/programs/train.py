"""A loop with two optimizers, which keeps its losses if it is told to."""

import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--pause", type=float, default=0.0)
arguments = parser.parse_args()
model, losses = torch.nn.Linear(512, 64), []
generator = torch.optim.Adam(model.parameters())
critic = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    for _ in range(arguments.steps):
        loss = torch.relu(model(torch.randn(16, 512))).mean()
        loss.backward()
        critic.step()
        generator.step()
        time.sleep(arguments.pause)
        if arguments.keep:
            losses.append(loss)
