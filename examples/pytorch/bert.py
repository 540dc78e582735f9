"""A small encoder in the manner of BERT, from a config: tokens, positions and segments, attention, a pooled first token."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    vocabulary: int = 60
    hidden: int = 32
    layers: int = 2
    heads: int = 2
    positions: int = 16
    labels: int = 2
    dropout: float = 0.0


class Embeddings(nn.Module):
    """Positions are looked up once, for all texts of a batch."""

    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.hidden, padding_idx=0)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.segments = nn.Embedding(2, config.hidden)
        self.norm = nn.LayerNorm(config.hidden)
        self.register_buffer("numbers", torch.arange(config.positions).expand(1, -1), persistent=False)

    def forward(self, texts):
        positions = self.positions(self.numbers[:, : texts.shape[1]])
        return self.norm(self.tokens(texts) + positions + self.segments(torch.zeros_like(texts)))


class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = Embeddings(config)
        block = nn.TransformerEncoderLayer(
            config.hidden, config.heads, 4 * config.hidden, config.dropout, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(block, config.layers, enable_nested_tensor=False)
        self.pooler = nn.Linear(config.hidden, config.hidden)
        self.output = nn.Linear(config.hidden, config.labels)

    def forward(self, texts, padding):
        states = self.encoder(self.embeddings(texts), src_key_padding_mask=padding)
        return self.output(torch.tanh(self.pooler(states[:, 0])))


class Texts(Dataset):
    """Made-up texts; those of the second class hold one of a few words."""

    def __init__(self, count, config):
        draw = torch.Generator().manual_seed(count)
        self.texts = torch.randint(10, config.vocabulary, (count, config.positions), generator=draw)
        self.texts[:, 0] = 1
        self.labels = torch.randint(2, (count,), generator=draw)
        for row in torch.nonzero(self.labels).flatten().tolist():
            self.texts[row, 1 + torch.randint(9, (1,), generator=draw)] = 2 + torch.randint(4, (1,), generator=draw)
        ends = torch.randint(10, config.positions + 1, (count, 1), generator=draw)
        self.texts[torch.arange(config.positions) >= ends] = 0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, place):
        return {"texts": self.texts[place], "padding": self.texts[place] == 0, "labels": self.labels[place]}


def main(epochs=15):
    torch.manual_seed(0)
    config = Config()
    loader = DataLoader(Texts(3000, config), batch_size=200, shuffle=True)
    test = Texts(1000, config)
    model = Classifier(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            scores = model(batch["texts"], batch["padding"])
            nn.functional.cross_entropy(scores, batch["labels"]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(test.texts, test.texts == 0).argmax(1) == test.labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
