"""A network for a table: data loader with workers, schedule, autocast, and checkpoints to go on from."""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    """Rows of a table as (numbers, label); the scale of each column is known in advance."""

    def __init__(self, rows, labels, scale):
        self.rows = torch.tensor(rows / scale, dtype=torch.float32)
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, place):
        return self.rows[place], self.labels[place]


def tables():
    rows, labels = load_breast_cancer(return_X_y=True)
    scale = 10.0 ** torch.tensor(rows[400:]).abs().mean(0).log10().round().numpy()
    return Table(rows[:400], labels[:400], scale), Table(rows[400:], labels[400:], scale)


def main(folder=None, epochs=30, stop_after=None, workers=0):
    torch.manual_seed(0)
    file = Path(folder or tempfile.mkdtemp()) / "checkpoint.pt"
    train, test = tables()
    loader = DataLoader(train, batch_size=50, shuffle=True, num_workers=workers, drop_last=True)
    model = nn.Sequential(nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    begin = 0
    if file.exists():
        saved = torch.load(file, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        begin = saved["epoch"]
    for epoch in range(begin, epochs if stop_after is None else stop_after):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
        torch.save({**states, "epoch": epoch + 1}, file)
    model.eval()
    with torch.no_grad():
        accuracy = (model(test.rows).argmax(1) == test.labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
