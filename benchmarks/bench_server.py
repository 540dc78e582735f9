"""The service beside a bare FastAPI route with the same bytes, and beside a session in process.

    python benchmarks/bench_server.py                          all of it, about two minutes
    python benchmarks/bench_server.py --quick                  3 seconds for each load
    python benchmarks/bench_server.py --questions --rounds 5   the questions alone, by turns with the processes

The routes are loaded by wrk (16 connections, 2 threads), one after the other on the same two worker processes: an account page, and a
bare route that answers with the same bytes. A price is timed at a median over HTTP and in process. A curve of 25 epsilons is
timed beside single prices of new questions. Questions are asked by as many connections as keep the workers busy while answers wait
for the grid, and by as many processes as there are workers, which call `session.sql` on the same data; no text and no price is asked
twice by either. Counted is the time in which all connections go on asking; the rate with the waits for the last answers is told too,
and their processor time, which other work on the machine hardly changes. Watchers are idle event streams.
All in one run; only the ratios mean something.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tacit.server import Service, load
from tacit.server.demo import SERVICE, write

PORT = 8491
SECONDS = 10
SQL = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits WHERE age > {age} GROUP BY region"
BARE = '''
from fastapi import FastAPI, Response
app = FastAPI()
BODY = open({body!r}, "rb").read()
@app.get("/bare")
def bare() -> Response:
    return Response(BODY, media_type="application/json")
'''


def made(folder: Path) -> Path:
    """The demonstration with limits that a load does not meet, and a grid whose step is short."""
    place = write(folder, rows=20_000)
    text = SERVICE.replace("step: 0.25 s", "step: 0.02 s").replace("epsilon: 2\n", "epsilon: 3.9\n")
    text = text.replace("price_per_minute: 600", ", ".join(
        f"{name}_per_minute: 10000000" for name in ("price", "questions", "other", "dummy")))  # fmt: skip
    place.write_text(text)
    return place


def started(words: list[str], url: str, **environment: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        try:
            if httpx.get(url, timeout=2).status_code < 500:
                return process
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def stopped(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=30)


def loaded(url: str, seconds: float, *headers: str) -> tuple[float, float]:
    """Requests a second, and the 99th percentile in milliseconds."""
    words = ["wrk", "-t2", "-c16", f"-d{seconds:g}s", "--latency", *(part for header in headers for part in ("-H", header)), url]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text:
        raise SystemExit(text)
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])  # type: ignore[index]
    slow, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return rate, float(slow) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def timed(work: Callable[[int], Any], times: int) -> float:
    """The median of a call, in milliseconds."""
    found = []
    for turn in range(times):
        began = time.perf_counter()
        work(turn)
        found.append(1e3 * (time.perf_counter() - began))
    return statistics.median(found)


def new(number: int) -> dict[str, str]:
    """A question that nobody has asked yet: its text and its price are both new."""
    return {"sql": SQL.format(age=f"{number % 100}.{number // 100:04d}"), "epsilon": f"0.0005{number:06d}"}


def asked_over_http(
    token: str, seconds: float, clients: int, port: int, first: int = 0, worked: Callable[[], float] = time.process_time
) -> tuple[float, float, float, float]:
    """Answers a second, of so many connections that ask a new question as soon as the last is answered; what one took of `worked`
    and of the processor here, in milliseconds; and the answers a second from the first request to the last answer.

    The first three are of the time in which every connection has had an answer and all go on asking. Answers wait for the grid: while
    the last are waited for, and nobody asks, nothing is worked on, which the fourth tells.
    """
    numbers, ended = itertools.count(first), [list[float]() for _ in range(clients)]
    # the least that asks the same: it works on the same cores as what is measured
    open_ = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(clients)]
    begun, stop, failed = [threading.Event() for _ in range(clients)], threading.Event(), list[str]()

    def one(lane: int) -> None:
        try:
            while not stop.is_set():
                number = next(numbers)
                body = json.dumps({"dataset": "visits", "purpose": "bed-planning", **new(number)}).encode()
                headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "prefer": "wait=30",
                           "idempotency-key": f"bench-{os.getpid()}-{number}-{time.monotonic_ns()}"}  # fmt: skip
                open_[lane].request("POST", "/v1/questions", body, headers)
                answer = open_[lane].getresponse()
                text = answer.read()
                if answer.status != 200:
                    failed.append(text.decode())
                    return
                ended[lane].append(time.monotonic())
                begun[lane].set()
        finally:
            begun[lane].set()

    lanes = [threading.Thread(target=one, args=(lane,)) for lane in range(clients)]
    first_asked = time.monotonic()
    for lane in lanes:
        lane.start()
        time.sleep(1 / clients)  # people do not ask all at the same moment
    for event in begun:
        event.wait()
    since, before, own = time.monotonic(), worked(), time.process_time()
    time.sleep(seconds)
    until, after, own = time.monotonic(), worked(), time.process_time() - own
    stop.set()
    for lane in lanes:
        lane.join()
    if failed:
        raise SystemExit(failed[0])
    asked = sum(since < moment <= until for lane in ended for moment in lane)
    whole = sum(map(len, ended)) / (max(moment for lane in ended for moment in lane) - first_asked)
    return asked / (until - since), 1e3 * (after - before) / asked, 1e3 * own / asked, whole


def worked(process: int) -> float:
    """The processor time of the processes that a process has started, in seconds; none where the system does not tell."""
    found, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        for child in thread.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            found += (int(fields[11]) + int(fields[12])) / tick
    return found


LOOP = """
import sys, time
sys.path.insert(0, sys.argv[4])
from bench_server import new
from tacit.server import Service, load
service = Service.open(load(sys.argv[1]), threads=1)
dataset, purpose = service.datasets["visits"], service.purposes.find("bed-planning")
session = dataset.session(purpose, "ben")
service.subjects.refresh(dataset, purpose.id)
def ask(number):
    asked = new(number)
    session.sql(asked["sql"], epsilon=asked["epsilon"])
place = int(sys.argv[3])
for number in range(20):
    ask(800000 + 100 * place + number)
print("ready", flush=True)
for first in map(int, sys.stdin):
    began, spent, count = time.monotonic(), time.process_time(), 0
    while time.monotonic() < began + float(sys.argv[2]):
        ask(first + 2 * count + place)
        count += 1
    print(count, time.monotonic() - began, time.process_time() - spent, flush=True)
import os; os._exit(0)
"""


class Processes:
    """As many processes as there are workers, which call `session.sql`. They live as long as the service does."""

    def __init__(self, place: Path, seconds: float, many: int) -> None:
        words = [sys.executable, "-c", LOOP, str(place), str(seconds)]
        self._running = [
            subprocess.Popen([*words, str(n), str(Path(__file__).parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for n in range(many)
        ]
        if any(self._told(process) != "ready" for process in self._running):
            raise SystemExit("a process that calls session.sql does not start")

    @staticmethod
    def _told(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def asked(self, first: int) -> tuple[float, float]:
        """Questions a second of all of them, and the processor time of one question in milliseconds."""
        for process in self._running:
            assert process.stdin is not None
            process.stdin.write(f"{first}\n")
            process.stdin.flush()
        told = [[float(word) for word in self._told(process).split()] for process in self._running]
        return sum(many / took for many, took, _ in told), 1e3 * sum(spent for *_, spent in told) / sum(many for many, *_ in told)

    def close(self) -> None:
        for process in self._running:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


def line(what: str, ours: str, other: str, ratio: float, limit: float, least: bool) -> None:
    good = ratio >= limit if least else ratio <= limit
    print(f"{what:<44}{ours:>16}{other:>16}{ratio:>8.2f}  {'at least' if least else 'at most'} {limit:g}: {'yes' if good else 'NO'}")


def questions(place: Path, token: str, server: int, seconds: float, clients: int, rounds: int = 1) -> None:
    """New questions of the service and of as many processes by turns; the medians of the rounds."""
    found, processes = [], Processes(place, seconds, 2)
    for turn in range(rounds):
        rate, spent, own, whole = asked_over_http(token, seconds, clients, PORT, turn * 50_000, lambda: worked(server))
        direct, alone = processes.asked(turn * 50_000)
        found.append((rate, direct, spent, alone, own, whole, rate / direct, spent / alone))
        if rounds > 1:  # rates, processor times, the client's, the rate of the whole, ratios
            print(*(f"{figure:.2f}" for figure in found[-1]), flush=True)
    processes.close()
    rate, direct, spent, alone, own, whole, ratio, times = (statistics.median(column) for column in zip(*found, strict=True))
    line("questions a second, 2 processes", f"{rate:.1f}", f"{direct:.1f}", ratio, 0.8, True)
    print(f"{'  with the first and the last waits':<44}{whole:>16.1f}{direct:>16.1f}{whole / direct:>8.2f}")
    line(f"processor time of one, ms (client {own:.1f})", f"{spent:.1f}", f"{alone:.1f}", times, 1.25, False)


def warmed(client: httpx.Client, name: str) -> None:
    """Both workers have planned, asked and read before anything is measured."""
    for turn in range(40):
        client.get(name, headers={"connection": "close"})
        body = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL.format(age=turn), "epsilon": f"0.00011{turn:03d}"}
        sent = {"idempotency-key": f"warm-up-{turn}", "connection": "close", "prefer": "wait=30"}
        client.post("/v1/questions", json=body, headers=sent)


def main(seconds: float, *, only: bool = False, clients: int = 32, rounds: int = 1) -> None:
    if not only and shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed; apt install wrk")
    folder = Path(tempfile.mkdtemp(prefix="tacit-bench-"))
    place = made(folder)
    with Service.open(load(place)) as service:
        token = service.register.issue("ann", role="analyst").text
        caller = service.register.by_token(token)
        assert caller is not None
        session = service.datasets["visits"].session(service.purposes.find("bed-planning"), "ann")  # type: ignore[arg-type]
        session.price(SQL.format(age=0), epsilon=0.1)
        in_process = timed(lambda n: session.price(SQL.format(age=n % 90), epsilon=0.1 + n / 1e4), 60)
        account = service.book.accounts(caller)[0]["id"]
    name = f"/v1/accounts/{account}"
    server = started(
        [sys.executable, "-m", "tacit.cli", "serve", str(place), "--port", str(PORT), "--workers", "2"],
        f"http://127.0.0.1:{PORT}/readyz",
    )
    try:
        sign = f"authorization: Bearer {token}"
        client = httpx.Client(base_url=f"http://127.0.0.1:{PORT}", headers={"authorization": f"Bearer {token}"}, timeout=60)
        if only:
            warmed(client, name)
            questions(place, token, server.pid, seconds, clients, rounds)
            return
        page = client.get(name)
        (folder / "body.json").write_bytes(page.content)
        (folder / "bare.py").write_text(BARE.format(body=str(folder / "body.json")))
        words = [sys.executable, "-m", "uvicorn", "bare:app", "--app-dir", str(folder), "--port", str(PORT + 1), "--workers", "2"]
        bare = started([*words, "--no-access-log", "--log-level", "warning"], f"http://127.0.0.1:{PORT + 1}/bare")
        warmed(client, name)
        print(f"{'':<44}{'service':>16}{'beside':>16}{'ratio':>8}")
        try:
            plain, plain_slow = loaded(f"http://127.0.0.1:{PORT + 1}/bare", seconds)
        finally:
            stopped(bare)
        ours, slow = loaded(f"http://127.0.0.1:{PORT}{name}", seconds, sign)
        line("account page, requests a second", f"{ours:.0f}", f"{plain:.0f}", ours / plain, 0.5, True)
        line("account page, 99th percentile in ms", f"{slow:.1f}", f"{plain_slow:.1f}", slow / plain_slow, 2.5, False)
        asked = {"dataset": "visits", "purpose": "bed-planning"}
        over_http = timed(
            lambda n: client.post("/v1/price", json={**asked, "sql": SQL.format(age=n % 90), "epsilon": 0.2 + n / 1e4}), 60
        )
        line("price, median in ms (adds)", f"{over_http:.1f}", f"{in_process:.1f}", over_http - in_process, 5, False)
        epsilons = [round(0.02 * 1.2**k, 5) for k in range(25)]
        curves, singles = [], []
        for turn in range(5):
            sql = SQL.format(age=turn).replace("age > ", "age >= ")
            singles.append(timed(lambda n, sql=sql: client.post("/v1/price", json={**asked, "sql": sql, "epsilon": 0.31 + n}), 1))
            sql = sql.replace("region, ", "region, SUM(nights) AS s, ")
            sent = {**asked, "sql": sql, "epsilons": [e * (1 + turn / 100) for e in epsilons]}
            curves.append(timed(lambda n, sent=sent: client.post("/v1/price", json=sent), 1))
        curve, single = statistics.median(curves), statistics.median(singles)
        line("curve of 25 epsilons, ms, beside one price", f"{curve:.0f}", f"{single:.1f}", curve / single, 12, False)
        questions(place, token, server.pid, seconds, clients)
        # a question that waits for the officer, as all of them do who watch
        watched = client.post("/v1/questions", json={**asked, "sql": SQL.format(age=1), "epsilon": "0.6"},
                              headers={"idempotency-key": "bench-watched"})  # fmt: skip
        with_watchers = watching(watched.json()["id"], token, lambda: loaded(f"http://127.0.0.1:{PORT}{name}", seconds, sign)[0])
        line("account page beside 1,000 waiting clients", f"{with_watchers:.0f}", f"{ours:.0f}", with_watchers / ours, 0.8, True)
    finally:
        stopped(server)
        shutil.rmtree(folder, ignore_errors=True)


def watching(question: str, token: str, work: Callable[[], float], many: int = 1000) -> float:
    """What `work` gives while so many clients keep an event stream open; one that has ended is kept open as it is."""
    import socket

    request = f"GET /v1/questions/{question}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    open_ = []
    for _ in range(many):
        connection = socket.create_connection(("127.0.0.1", PORT))
        connection.sendall(request)
        open_.append(connection)
    time.sleep(10)
    try:
        return work()
    finally:
        for connection in open_:
            connection.close()


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("--quick", action="store_true", help="3 seconds for each load")
    given.add_argument("--questions", action="store_true", help="the questions alone")
    given.add_argument("--rounds", type=int, default=1, help="so many turns of service and processes")
    given.add_argument("--clients", type=int, default=32, help="so many connections ask questions")
    told = given.parse_args()
    main(3 if told.quick else SECONDS, only=told.questions, clients=told.clients, rounds=told.rounds)
