"""A recurrent network that tells which of two motifs a sequence of letters holds."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LETTERS, LENGTH = 8, 20


class Sequences(Dataset):
    """Made-up sequences of different lengths; the second class has a run of one letter."""

    def __init__(self, count):
        draw = torch.Generator().manual_seed(count)
        self.labels = torch.randint(2, (count,), generator=draw)
        self.lengths = torch.randint(10, LENGTH + 1, (count,), generator=draw)
        self.letters = torch.randint(1, LETTERS, (count, LENGTH), generator=draw)
        places = torch.randint(6, (count,), generator=draw)
        for row in torch.nonzero(self.labels).flatten().tolist():
            self.letters[row, places[row] : places[row] + 4] = 3

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, place):
        return self.letters[place, : self.lengths[place]], self.labels[place]


def padded(records):
    """Every sequence at one fixed length, with zeros in front."""
    texts = torch.stack([nn.functional.pad(text, (LENGTH - len(text), 0)) for text, _ in records])
    return texts, torch.stack([label for _, label in records])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.output = nn.Linear(32, 2)

    def forward(self, texts):
        states, _ = self.lstm(self.embedding(texts))
        return self.output(states.amax(1))


def main(epochs=12):
    torch.manual_seed(0)
    loader = DataLoader(Sequences(4000), batch_size=250, shuffle=True, collate_fn=padded)
    test = DataLoader(Sequences(1000), batch_size=1000, collate_fn=padded)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for texts, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(texts), labels)
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        texts, labels = next(iter(test))
        accuracy = (model(texts).argmax(1) == labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
