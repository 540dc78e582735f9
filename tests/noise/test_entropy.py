"""Words come from the operating system once: not twice in a process, not in a forked child, not in another thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.noise.reference import LIVE, binomial_p
from tests.streams import from_system as fresh

from tacit.noise import source as source_module
from tacit.noise.source import BUFFER, OperatingSystem

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import multiprocessing, os, sys
if "same number" in sys.argv:
    os.getpid = lambda: 1
from tacit import noise
from tacit.noise.source import POOLS_OF_THIS_PROCESS as pools
from tacit.noise.source import SYSTEM as system
from tacit.noise.source import words

def take():
    return words(4).tolist(), [noise.discrete_laplace(10**15) for _ in range(4)], noise.discrete_laplace(10**15, size=4).tolist()

def undo():
    system.__dict__.update(saved[0])
    pools.__dict__.update(saved[1])

take(), take()  # fills the buffer and the pools
saved = []
if "no hooks" in sys.argv:
    os.register_at_fork(before=lambda: saved.extend([dict(system.__dict__), dict(pools.__dict__)]), after_in_child=undo)
context = multiprocessing.get_context("fork")
found = []
for _ in range(3):
    read, write = context.Pipe(False)
    child = context.Process(target=lambda: write.send(take()))
    child.start()
    found.append(read.recv())
    child.join()
read, write = os.pipe()
if not os.fork():
    os.write(write, repr(take()).encode())
    os._exit(0)
found += [eval(os.read(read, 10000)), take()]
for kind in zip(*found):
    print(len({x for one in kind for x in one}) == 20)
"""


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of these tests are the operating system's, not those of the test's own stream: they are what is tested."""
    monkeypatch.setattr(source_module, "fresh", fresh)


def forked(*settings: str) -> list[str]:
    """Whether 20 words, 20 values and 20 values in short arrays, of four children and their parent, are all different.

    In a process of its own, without threads.

    `no hooks` undoes in the child what the hook at a fork has done; `same number` also gives all processes one number.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", SCRIPT, *settings], capture_output=True, text=True, env=environment, timeout=600)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_anew() -> None:
    """Values have a scale of 1e15, so two coincide by chance with probability 1e-13. The hook alone suffices, and so does the number."""
    assert forked() == forked("same number") == forked("no hooks") == ["True"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_keeps_the_buffer_is_caught() -> None:
    """The mutant: without the hook and without the check of the number the same test sees words and values again."""
    assert forked("no hooks", "same number") == ["False"] * 3


def test_threads_never_share_a_word() -> None:
    """16,000 words: a coincidence by chance has probability 1e-11."""
    source, found, lock = OperatingSystem(), [], threading.Lock()

    def work() -> None:
        mine = [w for _ in range(200) for w in source.words(10).tolist()]
        with lock:
            found.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16_000 == len(set(found))


def test_a_thread_waits_while_another_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread that asks in the middle of the first one's refill is served after it, and not the same words."""
    source, second = OperatingSystem(), []
    other = threading.Thread(target=lambda: second.extend(source.words(10).tolist()))
    waited: list[bool] = []

    def slow(count: int) -> np.ndarray:
        if not waited:
            other.start()
            other.join(0.1)
            waited.append(other.is_alive())
        return fresh(count)

    monkeypatch.setattr(source_module, "fresh", slow)
    first = source.words(10).tolist()
    other.join()
    assert waited == [True] and len({*first, *second}) == 20


def test_a_word_is_wiped_as_it_leaves() -> None:
    source = OperatingSystem()
    taken = source.words(100)
    assert not source._buffer[:100].any() and source._buffer[100:].all() and taken.all()
    taken[:] = 7
    assert not (source.words(100) == 7).any(), "what is handed out belongs to the caller"
    assert not source._buffer[:200].any()


def test_the_buffer_is_refilled_and_large_requests_pass_it_by(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(count: int) -> np.ndarray:
        asked.append(count)
        return fresh(count)

    monkeypatch.setattr(source_module, "fresh", counted)
    source = OperatingSystem()
    for size in (1, BUFFER - 1, 1, 3 * BUFFER, 1, 0):
        assert len(source.words(size)) == size
    assert asked == [BUFFER, BUFFER, 3 * BUFFER]


def test_words_are_fair() -> None:
    """Each of the 64 bits of 1e5 words is a fair coin, and equal to its neighbour half of the time."""
    words = OperatingSystem().words(100_000)
    for bit in range(64):
        one = (words >> np.uint64(bit)) & np.uint64(1)
        assert binomial_p(int(one.sum()), len(words), 0.5) > LIVE / 128
        assert binomial_p(int((one[1:] == one[:-1]).sum()), len(words) - 1, 0.5) > LIVE / 128
    stuck = words | np.uint64(1 << 5)  # a mutant with one bit stuck
    assert binomial_p(int(((stuck >> np.uint64(5)) & np.uint64(1)).sum()), len(words), 0.5) < LIVE / 128
