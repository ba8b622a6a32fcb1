"""A training program in the style of nanoGPT: windows of one text, gradient accumulation, a rate for each iteration."""

import math

import torch
from torch import nn
from torch.nn import functional as F

block_size, batch_size, accumulation, max_iters, eval_interval = 16, 8, 4, 40, 20
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
data = (torch.arange(1295) ** 2 // 7) % 17


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(17, 32), nn.Linear(32, 17)

    def forward(self, X, Y):
        logits = self.head(torch.tanh(self.table(X)))
        loss = F.cross_entropy(logits.view(-1, 17), Y.reshape(-1), ignore_index=-1)
        return logits, loss


def get_batch():
    start = torch.randint(len(data) - block_size, (batch_size,))
    rows = torch.stack([data[k : k + block_size + 1] for k in start]).to(device)
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = [float(model(*get_batch())[1]) for _ in range(4)]
    model.train()
    return sum(losses) / len(losses)


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for iter_num in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * 0.5 * (1 + math.cos(math.pi * iter_num / max_iters))
    if iter_num % eval_interval == 0:
        print("iteration %d: loss %.4f" % (iter_num, estimate_loss()))
    for micro_step in range(accumulation):
        X, Y = get_batch()
        logits, loss = model(X, Y)
        loss = loss / accumulation
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print("weights %.9f" % sum(float(own.norm()) for own in model.parameters()))
