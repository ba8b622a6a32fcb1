"""A training that records which samples each rank took, for the test in which the ranks change.

ranks_train.py STOP_AFTER: the first rank sends itself SIGUSR1 after this number of steps of an epoch; with 0, never.
"""
import os
import signal
import sys

import torch

import hsched_ddp


class Noting(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 83

    def __getitem__(self, index: int) -> torch.Tensor:
        with open("took-%s" % os.environ["RANK"], "a") as file:
            file.write("%d\n" % index)
        return torch.full((3,), index / 83)


stop_after = int(sys.argv[1])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
training, loader = hsched_ddp.prepare(model, optimizer, Noting(), global_batch=8, collate_fn=lambda rows: torch.stack(rows).double())
for _ in training.epochs():
    for done, step in enumerate(training.steps(loader), 1):
        optimizer.zero_grad()
        for batch in step:
            step.scale((training.model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()).backward()
        optimizer.step()
        if done == stop_after and training.me.rank == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
if training.me.rank == 0:
    print("weights %.15f" % sum(float(own.detach().norm()) for own in model.parameters()), flush=True)
hsched_ddp.leave()
