"""Fits a line in ten steps per epoch: the training program for the tests of copies.

copies_train.py EPOCHS [STEP_S [worse]]: a step sleeps for STEP_S seconds; with `worse`, each measurement of the model
is worse than the one before.
"""
import itertools
import sys
import time

import torch

import hsched_ddp

epochs, step_s, *worse = sys.argv[1:] + ["0"][len(sys.argv) - 2:]
me = hsched_ddp.init(4, int(epochs))
data = [(torch.tensor([float(k)]), torch.tensor([2.0 * k])) for k in range(40)]
sampler = hsched_ddp.BatchSampler(len(data), me)
loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer)
if worse:
    training.measure = itertools.count(1).__next__
training.resume()
for epoch in training.epochs():
    for step in training.steps(loader):
        for inputs, wanted in step:
            step.scale(((model(inputs) - wanted) ** 2).mean()).backward()
        time.sleep(float(step_s))
        optimizer.step()
        optimizer.zero_grad()
print("epochs", training.epoch)
