"""What a clock tells: response times of two services whose tables differ in one person, with the time grid and without it.

    python benchmarks/bench_timing.py            20,000 response times over HTTP, about 22 minutes on two quiet cores
    python benchmarks/bench_timing.py 600        fewer

One table lacks a person, the other has them with a million rows. In a third service the engine fails on every question: an outcome
that only one of two neighbours has. Each is a service of its own with its own worker; the same lanes ask them in random order, so
whatever else the machine does meets them alike. The classifier is the one of `tacit.audit`: the area under the curve of the two
samples of times with its interval, and the largest epsilon that thresholds prove. With the grid both must find nothing; without it
(`step: 0`), on a few hundred, they must find the person, or they are no attack. An answer that missed its time (the declared estimate
was too low for this machine) is counted apart: how often a wait is doubled is told, as the security page says, and a run with many of
them says nothing about the grid.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_server import started, stopped

from tacit.audit import rank_attack
from tacit.audit.models.roc import roc
from tacit.server import Service, load
from tacit.server.demo import SERVICE, write

COUNT, ROWS, LANES = 20_000, 1_000_000, 8
#: The declared estimate, which is a time of the grid, and when a response must have come of an answer that left then.
STEP, ESTIMATE = 0.25, 0.5
LATE = ESTIMATE + STEP
SQL = "SELECT COUNT(*) AS n FROM visits WHERE age > {age}"
SIDES = ("without", "with", "failing")
#: Which outcome the third service has: its engine raises at once, for every statement, inside the payment.
FAILING = """
import os, tacit.tables.left_out as left_out
def run(self, statement):
    raise RuntimeError("the engine fails")
left_out.LeftOut.run = run
"""
#: All services start in the same way, so that their times differ by what they do alone.
APP = """
from tacit.server.start import make
app = make()
"""


def made(folder: Path, side: str, step: str) -> Path:
    """A service over the demonstration's table: with the person who has a million rows, or without them."""
    place = write(folder, rows=20_000)
    text = SERVICE.replace("grid: {step: 0.25 s}", f"grid: {{step: {step}, estimates: {{visits: {ESTIMATE:g} s}}}}")
    text = text.replace("epsilon: 2\n", "epsilon: 3.9\n").replace("price_per_minute: 600", ", ".join(
        f"{name}_per_minute: 10000000" for name in ("price", "questions", "other", "dummy")))  # fmt: skip
    place.write_text(text)
    if side == "with":
        table = pq.read_table(folder / "visits.parquet")
        one = table.slice(0, 1).set_column(0, "patient_id", pa.array([10**9], table.schema.field("patient_id").type))
        pq.write_table(pa.concat_tables([table, one.take([0] * ROWS)]), folder / "visits.parquet")
    return place


async def asked(client: httpx.AsyncClient, token: str, number: int) -> float:
    """One question under a key of its own: how long its answer took to come, in seconds."""
    body = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL.format(age=number % 100), "epsilon": f"0.00001{number:06d}"}
    headers = {"authorization": f"Bearer {token}", "idempotency-key": f"timed-{os.getpid()}-{number}", "prefer": "wait=30"}
    began = time.perf_counter()
    answer = await client.post("/v1/questions", json=body, headers=headers)
    took = time.perf_counter() - began
    if answer.status_code != 200 or answer.json()["state"] not in ("answered", "lost"):
        raise SystemExit(answer.text)
    return took


async def sampled(ports: dict[str, int], tokens: dict[str, str], count: int, lanes: int, first: int = 0) -> dict[str, list[float]]:
    """Times of `count` questions in all, in random order among the services; their numbers begin at `first`."""
    found: dict[str, list[float]] = {side: [] for side in ports}
    order = [side for side in ports for _ in range(count // len(ports))]
    random.shuffle(order)
    waiting, began = list(enumerate(order, first)), time.monotonic()
    clients = {side: httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) for side, port in ports.items()}

    async def lane(which: int) -> None:
        await asyncio.sleep(which * ESTIMATE / lanes)  # the lanes do not ask in step
        while waiting:
            number, side = waiting.pop()
            found[side].append(await asked(clients[side], tokens[side], number))
            done = sum(map(len, found.values()))
            if done % max(1, len(order) // 20) == 0:
                left = (time.monotonic() - began) / done * (len(order) - done)
                late = sum(took > LATE for times in found.values() for took in times)
                print(f"  {done} of {len(order)}, {late} late, {left / 60:.1f} minutes left", flush=True)

    await asyncio.gather(*map(lane, range(lanes)))
    for client in clients.values():
        await client.aclose()
    return found


def studied(step: str, count: int, lanes: int, sides: tuple[str, ...]) -> dict[str, list[float]]:
    """Start the services, ask, and stop them."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-timing-"))
    processes, ports, tokens = [], {}, {}
    try:
        for place, side in enumerate(sides):
            (folder / side).mkdir()
            file, port = made(folder / side, side, step), 8493 + place
            with Service.open(load(file)) as service:
                tokens[side] = service.register.issue("ann", role="analyst").text
            (folder / side / "served.py").write_text((FAILING if side == "failing" else "") + APP)
            words = [sys.executable, "-m", "uvicorn", "served:app", "--app-dir", str(folder / side), "--port", str(port),
                     "--no-access-log", "--log-level", "critical"]  # fmt: skip
            processes.append(started(words, f"http://127.0.0.1:{port}/readyz", TACIT_SERVICE_FILE=str(file)))
            ports[side] = port
        # plans are made and caches filled before times count; a number is asked once, because it names the key
        asyncio.run(sampled(ports, tokens, 100 * len(sides), lanes, 500_000))
        return asyncio.run(sampled(ports, tokens, count, lanes))
    finally:
        for process in processes:
            stopped(process)
        shutil.rmtree(folder, ignore_errors=True)


def told(name: str, first: list[float], second: list[float]) -> bool:
    """Print what the classifier finds between two samples; whether it tells them apart, each way wrong one time in a thousand."""
    outside, inside = np.array(first), np.array(second)
    area = roc(np.concatenate([outside, inside]), np.repeat([False, True], [len(outside), len(inside)])).auc
    half = 3.29 * float(np.sqrt((len(outside) + len(inside) + 1) / (12 * len(outside) * len(inside))))  # of two equal laws
    proved = rank_attack(outside, inside, confidence=0.999).lower
    found = abs(area - 0.5) > half or proved > 0
    middle = f"{1e3 * np.median(outside):.2f} and {1e3 * np.median(inside):.2f} ms"
    print(f"  {name}: {len(outside)} and {len(inside)} times, medians {middle}, area {area:.4f} (.5 +- {half:.4f}), "
          f"epsilon at least {proved:.3f}: {'TOLD APART' if found else 'not told apart'}", flush=True)  # fmt: skip
    return found


def main(count: int) -> int:
    print("without the grid:", flush=True)
    bare = studied("0 s", min(400, count), 1, SIDES[:2])
    attacks = told("a person of a million rows", bare["without"], bare["with"])
    print(f"with the grid (step {STEP:g} s, declared estimate {ESTIMATE:g} s), {count} response times:", flush=True)
    seen = studied(f"{STEP:g} s", count, LANES, SIDES)
    late = {side: sum(took > LATE for took in times) for side, times in seen.items()}
    punctual = {side: [took for took in times if took <= LATE] for side, times in seen.items()}
    verdicts = []
    for name, side in (("a person of a million rows", "with"), ("a question that fails on one", "failing")):
        verdicts.append(told(name, seen["without"], seen[side]))
        if late["without"] or late[side]:
            told(f"{name}, without {late['without']} and {late[side]} late ones", punctual["without"], punctual[side])
    share = sum(late.values()) / sum(map(len, seen.values()))
    print(f"late answers, whose wait was doubled: {', '.join(f'{side} {n}' for side, n in late.items())} ({share:.2%})")
    print(f"without the grid the attack finds the person: {'yes' if attacks else 'NO'}")
    print(f"with it, the person: {'FOUND' if verdicts[0] else 'not found'}; the failure: {'FOUND' if verdicts[1] else 'not found'}")
    return int(not attacks or any(verdicts))


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
