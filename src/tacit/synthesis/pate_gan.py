"""PATE-GAN: teachers who know disjoint people judge made-up rows, and a student learns from their noisy votes alone.

Each round the maker makes rows, every teacher takes some steps on its own people's rows and these, all teachers vote on
`questions` of them, and the noisy winners are what the student learns from; the maker then learns from the student
(Jordon, Yoon and van der Schaar 2019). Only votes leave the teachers, so only votes are priced. The price holds for any
votes; the paper's smaller one depends on the data and is itself private.

>>> from tacit.synthesis.neural import PateGan
>>> PateGan(rounds=2, questions=3).learning(10.0).count
6
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tacit.deep import Ensemble, partition
from tacit.noise import uniform_integers
from tacit.synthesis.networks import Cells, Maker, layers, seeded
from tacit.synthesis.neural import BATCH, Known, Made, PateGan

OWN = 32  # rows of its own that a teacher looks at in a step
STEPS = 5  # of teachers, student and maker in a round
MOST = 1000  # teachers


class Teachers:
    """Linear critics, one for each part of the people, trained side by side; `asked` gives their votes."""

    def __init__(self, rows: Tensor, parts: list[NDArray[np.int64]], cells: Cells, rate: float) -> None:
        self.rows, self.cells, self.rate = rows, cells, rate
        self.parts = [torch.from_numpy(part) for part in parts]
        self.weights = torch.zeros(len(parts), cells.width + 1)

    def learn(self, made: Tensor) -> None:
        """One step of every teacher on its own rows and on made-up ones."""
        for place, part in enumerate(self.parts):
            # A teacher uses as much chance as any other, whether it has people or not.
            own_places, fake_places = (torch.rand(2, OWN) * torch.tensor([[len(part)], [len(made)]])).long()
            if not len(part):
                continue  # it votes as it began
            own = _with_one(self.cells.one_hot(self.rows[part[own_places]]))
            fake = _with_one(made[fake_places])
            weight = self.weights[place]
            step = torch.sigmoid(-own @ weight) @ own - torch.sigmoid(fake @ weight) @ fake
            self.weights[place] += self.rate / OWN * step

    def asked(self, place: int, questions: Tensor) -> NDArray[np.int64]:
        """A teacher's verdicts: 1 for real."""
        return (_with_one(questions) @ self.weights[place] > 0).long().numpy()


def _with_one(seen: Tensor) -> Tensor:
    return torch.cat([seen, seen.new_ones(len(seen), 1)], dim=-1)


def trained(method: PateGan, rows: NDArray[np.int64], people: NDArray[np.int64], noise: float, known: Known) -> Made:
    """A source of rows; the caller has paid for the votes."""
    cells = Cells(known.sizes, known.target, known.columns)
    draws = np.random.default_rng(uniform_integers(2**62))
    number = int(min(MOST, max(2, round(known.total / method.per_teacher))))
    votes = method.votes(noise)
    with seeded(draws):
        teachers = Teachers(torch.from_numpy(rows), partition(people, number), cells, 0.5)
        maker = Maker(method.code, cells.told, method.width, cells.width)
        student = layers(cells.width, method.width, 1)
        learning = torch.optim.Adam(student.parameters(), lr=method.rate)
        making = torch.optim.Adam(maker.parameters(), lr=method.rate, betas=(0.5, 0.9))

        def drawn(number: int) -> Tensor:
            told = cells.of_class(torch.from_numpy(known.classes(number, draws)))
            return cells.drawn(cells.of_told(maker(told) + cells.base, told))

        asked, answers = [], []
        for _ in range(method.rounds):
            with torch.no_grad():
                for _ in range(STEPS):
                    teachers.learn(drawn(BATCH))
                # Half of the questions are rows of independent columns: the student must see what is not the maker's.
                half = method.questions // 2
                questions = torch.cat([
                    drawn(method.questions - half), cells.one_hot(torch.from_numpy(known.independent(half, draws)))
                ])  # fmt: skip
                ensemble = Ensemble([_Asked(teachers, place) for place in range(number)], classes=2, votes=votes)
                asked.append(questions)
                answers.append(torch.from_numpy(ensemble.label(questions)).float())
            seen, said = torch.cat(asked), torch.cat(answers)
            for _ in range(STEPS * 4):
                learning.zero_grad()
                torch.autograd.backward(functional.binary_cross_entropy_with_logits(student(seen).squeeze(-1), said))
                learning.step()
            for _ in range(STEPS * 4):
                making.zero_grad()
                torch.autograd.backward(functional.softplus(-student(drawn(BATCH))).mean())
                making.step()
    return Made(cells, lambda classes, draws: maker(cells.of_class(classes)) + cells.base, known)


class _Asked:
    """One teacher as `Ensemble` knows teachers."""

    def __init__(self, teachers: Teachers, place: int) -> None:
        self.teachers, self.place = teachers, place

    def predict(self, questions: Tensor) -> NDArray[np.int64]:
        return self.teachers.asked(self.place, questions)
