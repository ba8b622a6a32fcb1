"""A training program in the style of torchvision's main.py: epochs of training and validation, and a schedule."""

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset
from hsched_ddp import leave, prepare


def make_data(samples, seed):
    draw = torch.Generator().manual_seed(seed)
    images = torch.randn(samples, 3, 8, 8, generator=draw)
    return TensorDataset(images, (images.mean((1, 2, 3)) > 0).long())


def validate(loader, model, device):
    right = seen = 0
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            output = model(images.to(device))
            right += int((output.argmax(1) == target.to(device)).sum())
            seen += len(target)
    model.train()
    return right, seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch", type=int, default=32)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    data, val_data = make_data(200, 1), make_data(50, 2)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    ).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
    training, loader = prepare(model, optimizer, data, scheduler=schedule, **vars(args))
    for epoch in training.epochs():
        for step in training.steps(loader):
            optimizer.zero_grad()
            for images, target in step:
                loss = criterion(model(images.to(device)), target.to(device))
                step.scale(loss).backward()
            optimizer.step()
        schedule.step()
        right, seen = training.sum(validate(training.evaluate(val_data), model, device))
        print("epoch %d: accuracy %.6f of %d" % (epoch, right / seen, seen))
    print("weights %.9f" % sum(float(own.norm()) for own in model.parameters()))
    leave()


if __name__ == "__main__":
    main()
