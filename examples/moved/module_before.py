"""A Lightning module with a validation and a schedule."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(samples, seed):
    draw = torch.Generator().manual_seed(seed)
    points = torch.randn(samples, 6, generator=draw)
    return TensorDataset(points, (points.prod(1) > 0).long())


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))

    def training_step(self, batch, batch_idx):
        points, labels = batch
        return nn.functional.cross_entropy(self.net(points), labels)

    def validation_step(self, batch, batch_idx):
        points, labels = batch
        right = (self.net(points).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
        return [optimizer], [schedule]


def main():
    L.seed_everything(1)
    module = Classifier()
    data, val_data = make_data(200, 1), make_data(64, 2)
    loader = DataLoader(data, batch_size=32, shuffle=True)
    trainer = L.Trainer(
        max_epochs=3,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(module, loader, DataLoader(val_data, batch_size=16))
    print("weights %.9f" % sum(float(own.norm()) for own in module.parameters()))


if __name__ == "__main__":
    main()
