"""Worker processes on a service's database that are killed at random: each answers the questions of some clients, and writes
down what it delivered.

    python tests/server/hammer.py FOLDER SECONDS EVERY WORKERS CLIENTS CALM

The first process loads the modules and opens nothing; workers are forked from it, so that a new one is at work soon. The last
workers are left alone for a while at the end. A client is a thread that asks under keys of its own, and asks again under the
same key until it has an outcome. What is delivered goes to a file, one line each: key, state, entry and the first figure.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tacit.server import Caller, Service, ServiceError, load
from tacit.server.requests import Ask

SQL = "SELECT COUNT(*) AS n FROM visits WHERE age > {age}"


def clients(folder: Path, number: int, seconds: float, threads: int) -> None:
    service = Service.open(load(folder / "service.yaml"), threads=2)
    out = os.open(folder / f"delivered-{number}-{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    until = time.monotonic() + seconds
    caller = Caller("ann", "Ann", ("analyst",), frozenset({"visits"}))

    def one(lane: int) -> None:
        draws = random.Random(f"{number} {lane}")
        turn = 0
        while time.monotonic() < until:
            # the same lane of a later process asks under the same keys: what was cut off is asked for again
            key = f"key-{number}-{lane}-{turn}"
            asked = Ask(dataset="visits", purpose="bed-planning", sql=SQL.format(age=draws.randrange(100)), epsilon="0.001")
            try:
                view = service.questions.ask(caller, asked, key)
                view = service.questions.wait(caller, view["id"], 3)
            except ServiceError:
                time.sleep(0.01)
                continue
            if view["state"] in ("answered", "lost", "refused"):
                row = service.claims.row(view["id"])
                entry = None if row is None else row["entry"]
                figure = view["answer"]["figures"]["n"]["value"][0] if view["answer"] else None
                os.write(out, (json.dumps([key, view["state"], entry, figure]) + "\n").encode())
                turn += 1

    lanes = [threading.Thread(target=one, args=(lane,), daemon=True) for lane in range(threads)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    os._exit(0)


def needed(folder: Path) -> list[str]:
    """The modules that a worker has loaded after its first answer."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        with suppress(ServiceError):
            service = Service.open(load(folder / "service.yaml"), threads=1)
            asked = Ask(dataset="visits", purpose="bed-planning", sql=SQL.format(age=1), epsilon="0.001")
            caller = Caller("ben", "Ben", ("analyst",), frozenset({"visits"}))
            view = service.questions.ask(caller, asked, f"the-first-{os.getpid()}")
            service.questions.wait(caller, view["id"], 30)
        with os.fdopen(writing, "w") as stream:
            stream.write("\n".join(sorted(sys.modules)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        return stream.read().splitlines()


def main(folder: Path, seconds: float, every: float, workers: int, threads: int, calm: float) -> None:
    """Keep so many workers at work, kill one of them now and then, and print how many were killed."""
    draws, until, kills = random.Random(17), 0.0, 0

    def start(number: int) -> int:
        pid = os.fork()
        if pid == 0:
            clients(folder, number, max(0.5, until - time.monotonic()), threads)
        return pid

    for name in needed(folder):
        with suppress(ImportError):
            import_module(name)
    until = time.monotonic() + seconds
    running = {number: start(number) for number in range(workers)}
    while time.monotonic() < until - calm:
        time.sleep(every)
        number = draws.randrange(workers)
        os.kill(running[number], signal.SIGKILL)
        os.waitpid(running[number], 0)
        kills += 1
        running[number] = start(number)
    for pid in running.values():
        os.waitpid(pid, 0)
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
