"""Kill -9 between any two steps of a federated run, by enumeration: afterwards spent >= released, on both sides.

A step is a system call or a statement of SQLite. The disk of `tests.release.crashes` keeps what a kill would leave at each of
them, of one run with server and clients, so no place is left to luck. Every message is handled by a client app of its own, as
Flower's SuperNodes do it. What left a client, or the server, is noted in memory at the moment it leaves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.federated.apps import plan, policy, pushing, start
from tests.release.crashes import Disk, Picture, Tree, cut_off

from tacit.accounting import account as priced
from tacit.federated import ClientBook, FederatedError, InProcessGrid, Private, client_app, kept, on_weights
from tacit.federated.messages import ANSWER, RECORD, REFUSED
from tacit.ledger import Budget, Ledger, Payment

CLIENTS, ROUNDS, KILLED = 3, 2, 2
LIMITS = {"budget": "eps=1000, delta=1e-3"}
ANSWERS = ("vector", "shares", "masked", "unmask")  # of which there must be one at the most; keys are made anew at will


def made_plan(trust: str) -> Any:
    more = {"dropouts": 1 / 3} if trust == "distributed" else {}
    return plan(trust=trust, clients=CLIENTS, rounds=ROUNDS, noise_multiplier=1.0, **more)


@cache
def prices(trust: str) -> tuple[float, float]:
    """What a run costs in a client's book, and in the server's."""
    made = made_plan(trust)
    return priced(made.client_event).epsilon(made.delta).upper, priced(made.event).epsilon(made.delta).upper


@dataclass(frozen=True)
class Left:
    """Something that left a process: the answer of a client in a phase of a round, or the server's model after a round."""

    what: str
    run: str
    turn: int
    node: int = 0


@dataclass
class Film(Disk):
    """A disk that keeps what kills leave, and no losses of power: SQLite's own syncs cannot be seen from here."""

    folder: Path
    left: list[Left] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.then = self._then = len(self.left)  # how much had left at the picture, and at the one before
        super().__init__(self.folder, lambda: self.then)

    def _pictured(self, what: str) -> None:
        self._in_book(what)

    def _in_book(self, what: str) -> None:
        """A kill now, or while a book got from its last state to this one: then nothing else had changed, and nothing had left."""
        now, left = self.killed(), len(self.left)
        for name, content in now.items():
            old = self._last.get(name, b"")
            if isinstance(content, bytes) and isinstance(old, bytes) and content != old:
                for part in cut_off(name, old, content):
                    self.then = self._then
                    self._add({**self._last, name: part}, f"in sqlite, {what}", "kill")
        self.then = left
        self._add(now, what, "kill")
        self._last, self._then = now, left

    @contextmanager
    def rolling(self) -> Iterator[Film]:
        with self.in_place(), self.in_sqlite(every=2000):
            yield self


def book_of(folder: Path, node: int) -> Path:
    return folder / str(node) / "book.db"


def one_client() -> Any:
    train = on_weights(lambda arrays, context: {"w": arrays["w"] + pushing(context)})
    return client_app(train, policy=policy(**LIMITS))


def answered(reply: Any) -> bool:
    """Whether a client said anything but no."""
    return not reply.has_error() and reply.content[RECORD][ANSWER] != REFUSED


class Nodes(InProcessGrid):
    """Clients whose every message starts a new app on the same files; what leaves them is noted."""

    def __init__(self, folder: Path, left: list[Left]) -> None:
        super().__init__(one_client(), nodes=CLIENTS, node_config=lambda node: {"tacit-book": str(book_of(folder, node))})
        self.left = left

    def _delivered(self, message: Any, name: str) -> list[Any]:
        self._app = one_client()
        replies = super()._delivered(message, name)
        asked = dict(message.content.config_records[RECORD])
        if any(answered(reply) for reply in replies):
            self.left.append(Left(asked["phase"], asked["run"], asked["turn"], message.metadata.dst_node_id))
        return replies


def served(folder: Path, trust: str, grid: Nodes) -> Private:
    """Run, or go on with, the run of this folder."""
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.ERROR)
    with Ledger.open(f"sqlite:///{folder / 'server.db'}") as ledger:
        account = ledger.account("run", Budget(epsilon=10_000, delta="1e-2"))
        strategy = Private(FedAvg(), made_plan(trust), account, checkpoint=folder / "run.checkpoint")

        def published(turn: int, arrays: Any) -> None:
            if turn:
                grid.left.append(Left("model", strategy.rounds.run, turn))

        strategy.start(grid, start(), evaluate_fn=published)
        return strategy


def filmed(folder: Path, trust: str) -> Film:
    """A whole run with everything that a kill could leave."""
    folder.mkdir()
    film = Film(folder)
    with film.rolling():
        served(folder, trust, Nodes(folder, film.left))
    return film


def checked(folder: Path, trust: str, left: list[Left], paths: dict[int, Path] | None = None) -> None:
    """Whatever left was paid for before, and nothing left twice."""
    made = made_plan(trust)
    counted = [one for one in left if one.what in (*ANSWERS, "model")]
    assert len(set(counted)) == len(counted), "an answer left twice"
    own, price = prices(trust)
    for node in range(1, CLIENTS + 1):
        vectors = [one for one in left if one.node == node and one.what in ("vector", "masked")]
        if vectors:
            book = ClientBook((paths or {}).get(node, book_of(folder, node)), policy(**LIMITS))
            runs = {one.run for one in vectors}
            for run in runs:
                assert {one.turn for one in vectors if one.run == run} <= set(book.rounds(made, run)), "a round is not in the book"
            assert float(book.account.spent()["epsilon"]) >= len(runs) * own * (1 - 1e-9), "a client has not paid"
    runs = {one.run for one in left}
    if runs:
        with Ledger.open(f"sqlite:///{folder / 'server.db'}", create=False) as ledger:
            spent = float(ledger.account("run", Budget(epsilon=10_000, delta="1e-2")).spent()["epsilon"])
        assert spent >= len(runs) * price * (1 - 1e-9), "the server has not paid"


def gone_on(picture: Picture, folder: Path, trust: str, before: list[Left]) -> int:
    """Lay a picture out, check it, start the same server again, and check that; how many models were released."""
    left = list(before[: picture.draws])
    picture.laid_out(folder)
    checked(folder, trust, left)
    begun = (folder / "run.checkpoint").exists()
    try:
        served(folder, trust, Nodes(folder, left))
    except FederatedError as refused:  # the run is concluded
        assert refused.code == "federated-checkpoint"
    checked(folder, trust, left)
    models = sum(one.what == "model" for one in left)
    assert models >= (ROUNDS - 1 if begun else ROUNDS)  # the round under way is lost, and no other
    return models


def only_books(tree: Tree) -> Tree:
    """The books and the rounds beside them, without open sums and the checkpoint."""
    found: Tree = {}
    for name, part in tree.items():
        if not name.endswith((".sums", ".checkpoint", ".checkpoint.part")):
            found[name] = only_books(part) if isinstance(part, dict) else part
    return found


# --- the server, and all clients with it ------------------------------------------------------------------------------


@pytest.mark.parametrize(("trust", "again"), [("central", 3), ("distributed", 2)])
def test_a_kill_at_every_step_leaves_everything_paid(tmp_path: Path, trust: str, again: int) -> None:
    """Every step of a run is looked at; from some of them the run goes on."""
    film = filmed(tmp_path / "film", trust)
    assert len(film.pictures) > (80 if trust == "central" else 180)
    assert {one.what for one in film.left} == {"vector", "model"} if trust == "central" else {"keys", *ANSWERS[1:], "model"}
    checked(tmp_path / "film", trust, film.left)
    seen: set[tuple[object, int]] = set()
    for number, picture in enumerate(film.pictures):
        # The check reads books and rounds alone; where these are the same after equally many vectors and models, one is enough.
        books = Picture(only_books(picture.tree), 0, "", "", 0).digest
        counted = sum(one.what in ("vector", "masked", "model") for one in film.left[: picture.draws])
        if (books, counted) not in seen:
            seen.add((books, counted))
            if trust == "central" or len(seen) % 4 == 0:  # the slow test looks at all of both
                checked(picture.laid_out(tmp_path / f"picture-{number}"), trust, film.left[: picture.draws])
    assert len(seen) > 40
    step = len(film.pictures) // again
    for number, picture in enumerate(film.pictures[step // 2 :: step]):
        gone_on(picture, tmp_path / f"again-{number}", trust, film.left)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_a_run_goes_on_from_a_kill_at_every_step(tmp_path: Path, trust: str, quarter: int) -> None:
    film = filmed(tmp_path / "film", trust)
    chosen = film.pictures[quarter::4]
    assert len(chosen) > 20
    for number, picture in enumerate(chosen):
        assert gone_on(picture, tmp_path / str(number), trust, film.left) in (ROUNDS - 1, ROUNDS)


# --- one client, while the server and the others go on ----------------------------------------------------------------


class Dying(Nodes):
    """One client dies at one step of one phase. It comes back on the files that were left, is asked the same again by a
    server that does not give up, and takes part in the next round as if nothing had been."""

    def __init__(self, folder: Path, left: list[Left], phase: str, turn: int, at: int) -> None:
        super().__init__(folder, left)
        self.folder, self.phase, self.turn, self.at = folder, phase, turn, at
        self.paths: dict[int, Path] = {}
        self.steps = 0
        self.again: bool | None = None
        self.twice = False  # said afterwards: what is raised inside a payment is withheld

    def _delivered(self, message: Any, name: str) -> list[Any]:
        asked, node = dict(message.content.config_records[RECORD]), message.metadata.dst_node_id
        if (node, asked["phase"], asked["turn"]) != (KILLED, self.phase, self.turn) or self.again is not None:
            return super()._delivered(message, name)
        film = Film(self.paths.get(node, book_of(self.folder, node)).parent) if node in self._known() else None
        assert film is not None
        before = len(self.left)
        with film.rolling():
            replies = super()._delivered(message, name)
        self.steps = len(film.pictures)
        last = self.at >= self.steps - 1
        if not last:
            del self.left[before:]  # it died before its answer left
        # On new files: the old ones are still open in this process, and closing them would tidy up.
        chosen = film.pictures[min(self.at, self.steps - 1)].laid_out(self.folder / "restarted")
        self.paths[node] = chosen / "book.db"
        self._contexts[node].node_config["tacit-book"] = str(self.paths[node])
        self.again = False
        self.again = any(answered(reply) for reply in super()._delivered(message, f"{name}again"))
        self.twice = last and self.again and self.phase in ANSWERS
        return replies if last else []

    def _known(self) -> list[int]:
        for node in self._contexts:
            self.paths.get(node, book_of(self.folder, node)).parent.mkdir(parents=True, exist_ok=True)
        return list(self._contexts)


def one_dies(folder: Path, trust: str, phase: str, turn: int, at: int) -> tuple[int, bool]:
    """A run in which one client dies at a step of a phase: how many steps there are, and whether it answered afterwards."""
    folder.mkdir()
    left: list[Left] = []
    grid = Dying(folder, left, phase, turn, at)
    served(folder, trust, grid)
    assert not grid.twice, "a second answer"
    checked(folder, trust, left, grid.paths)
    assert sum(one.what == "model" for one in left) == ROUNDS  # two of three are enough
    assert grid.again is not None
    return grid.steps, grid.again


@pytest.mark.parametrize(("trust", "phase"), [("central", "vector"), ("distributed", "masked"), ("distributed", "unmask")])
def test_a_client_that_dies_in_a_phase_pays_and_answers_once(tmp_path: Path, trust: str, phase: str) -> None:
    steps, answers_again = one_dies(tmp_path / "last", trust, phase, 1, 10**6)
    assert steps > 2 and not answers_again
    one_dies(tmp_path / "half", trust, phase, 1, steps // 2)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize(("trust", "phase"), [("central", "vector"), *(("distributed", phase) for phase in ("keys", *ANSWERS[1:]))])
def test_a_client_dies_at_every_step(tmp_path: Path, trust: str, phase: str, turn: int) -> None:
    if (phase, turn) == ("keys", 2):
        pytest.skip("the keys of the second round ride on the last message of the first")
    steps, _ = one_dies(tmp_path / "last", trust, phase, turn, 10**6)
    for at in range(steps - 1):
        one_dies(tmp_path / str(at), trust, phase, turn, at)


# --- the mutants --------------------------------------------------------------------------------------------------------


def test_a_client_that_pays_after_training_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a book that notes a round only when the next one comes."""
    plain = ClientBook.enter
    waiting: dict[str, Any] = {}

    def late(self: ClientBook, made: Any, *, run: str, turn: int, today: Any = None) -> Payment:
        key = str(self.path)
        if key in waiting:
            plain(self, made, **waiting.pop(key))
        waiting[key] = {"run": run, "turn": turn}
        return self._payment(None, made, None)

    monkeypatch.setattr(ClientBook, "enter", late)
    film = filmed(tmp_path / "film", "central")
    assert caught_in(film, tmp_path)


def caught_in(film: Film, folder: Path) -> bool:
    for number, picture in enumerate(film.pictures[::5]):
        try:
            checked(picture.laid_out(folder / f"c{number}"), "central", film.left[: picture.draws])
        except AssertionError:
            return True
    return False


def test_a_sum_that_is_read_and_not_taken_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: open sums stay on the disk when they are taken, so the same list of survivors is answered twice."""

    def read_only(self: kept.KeptSums, run: str, identity: Any = None, register: Any = None) -> Any:
        place = self._place(run)
        return kept._read(json.loads(place.read_text()), identity, register) if place.exists() else None

    monkeypatch.setattr(kept.KeptSums, "take", read_only)
    with pytest.raises(AssertionError, match="second answer"):
        one_dies(tmp_path / "run", "distributed", "unmask", 2, 10**6)  # of the last round: no keys take its place
