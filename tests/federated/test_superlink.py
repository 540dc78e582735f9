"""Real Flower on loopback: a SuperLink, three SuperNodes as processes, a secure sum, one node killed in mid-round."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
SERVER = """
    import json
    from pathlib import Path
    import numpy as np
    from flwr.app import Array, ArrayRecord, Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from tacit import federated

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        import time
        while len(list(grid.get_node_ids())) < 3:
            time.sleep(0.5)
        terms = dict(clients=3, size=4, clip=1.0, rounds=1, noise_multiplier=0.05, delta=1e-5)
        # First a round under central trust: its exact sum is compared with those of the grid and the simulator.
        first = federated.Private(FedAvg(), federated.plan(**terms), None, run="compared")
        first.start(grid, ArrayRecord({"w": Array(np.zeros(4))}), timeout=float(context.run_config["timeout"]))
        Path(context.run_config["out"] + ".sum").write_text(json.dumps(first.rounds.last_total.tolist()))
        plan = federated.plan(**terms, trust="distributed", dropouts=1 / 3)
        strategy = federated.Private(FedAvg(), plan, None, run="loopback")
        result = strategy.start(grid, ArrayRecord({"w": Array(np.full(4, 0.25))}), timeout=float(context.run_config["timeout"]))
        found = {"weights": result.arrays["w"].numpy().tolist(), "void": strategy.rounds_void,
                 "survivors": len(strategy.rounds.survivors), "excluded": strategy.rounds.excluded}
        Path(context.run_config["out"]).write_text(json.dumps(found))
"""
CLIENT = """
    import time
    from pathlib import Path
    import numpy as np
    from tacit.federated import Policy, client_app, on_weights

    def train(arrays, context):
        here = Path(context.node_config["here"])
        me = int(context.node_config["partition-id"])
        if me == 2 and arrays["w"][3] == 0.25:   # the second run
            (here / f"training-{me}").touch()
            time.sleep(600)   # killed meanwhile
        moved = np.zeros(4)
        moved[me] = 0.5 / 3
        return {"w": arrays["w"] + moved}

    policy = Policy("loopback", budget="eps=1e9, delta=1e-3", expires="2099-01-01", clip=1.0, noise=0.001,
                    trust=("central", "distributed"), workloads=("any",), code=("any",))
    app = client_app(on_weights(train), policy=policy)
"""
PROJECT = """
    [build-system]
    requires = ["hatchling"]
    build-backend = "hatchling.build"
    [project]
    name = "loopback"
    version = "1.0.0"
    dependencies = []
    [tool.flwr.app]
    publisher = "tests"
    [tool.flwr.app.components]
    serverapp = "loopback.server_app:app"
    clientapp = "loopback.client_app:app"
    [tool.flwr.app.config]
    out = "{out}"
    timeout = 240
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end after the test, with all that they started."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        kill(process)
    for process in running:
        process.wait(30)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, by their numbers; Flower gives some of them a session of their own."""
    for number in (process.pid, *below(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def below(parent: int) -> list[int]:
    """The numbers of all processes that a process started, and those that these started."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for one in found:
        found += [child for child, above in parents.items() if above == one]
    return found[1:]


def wait_for(path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} did not appear"
        time.sleep(0.25)


def sums_without_sockets() -> list[int]:
    """The exact sum of the first run, from the grid in this process and from the simulator, which are equal."""
    import numpy as np
    from flwr.serverapp.strategy import FedAvg
    from tests.federated.apps import policy, start

    from tacit import federated

    made = federated.plan(clients=3, size=4, clip=1.0, rounds=1, noise_multiplier=0.05, delta=1e-5)

    def moved(place: int) -> Any:
        found = np.zeros(4)
        found[place] = 0.5 / 3
        return found

    train = federated.on_weights(lambda arrays, context: {"w": arrays["w"] + moved(context.node_config["partition-id"])})
    client = federated.client_app(train, policy=policy(budget="eps=1e9, delta=1e-5", noise=0.001), book=None)
    strategy = federated.Private(FedAvg(), made, None, run="compared")
    strategy.start(federated.InProcessGrid(client, nodes=3), start())
    other = federated.simulate(made, np.zeros(4), lambda w, ids: np.array([moved(int(i)) for i in ids]), keep_totals=True)
    assert strategy.rounds.last_total is not None and (strategy.rounds.last_total == other.totals[0]).all()
    return [int(number) for number in other.totals[0]]


def test_grid_and_simulator_have_one_sum() -> None:
    assert sums_without_sockets()[3] == 0


@pytest.mark.slow
def test_a_secure_sum_over_superlink_and_supernodes(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    project, home = tmp_path / "app", tmp_path / "home"
    (project / "loopback").mkdir(parents=True)
    home.mkdir()
    out = tmp_path / "out.json"
    (project / "pyproject.toml").write_text(textwrap.dedent(PROJECT).replace("{out}", str(out)))
    (project / "loopback" / "__init__.py").write_text("")
    (project / "loopback" / "server_app.py").write_text(textwrap.dedent(SERVER))
    (project / "loopback" / "client_app.py").write_text(textwrap.dedent(CLIENT))
    port = free_port()
    (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    environment = os.environ | {
        "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONWARNINGS": "ignore",
    }  # fmt: skip

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{name}.log").open("wb") as log:
            made = subprocess.Popen(arguments, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
        started.append(made)
        return made

    start("superlink", str(BIN / "flower-superlink"), "--insecure", "--disable-runtime-dependency-installation", "--host", "127.0.0.1",
          "--port", str(port))  # fmt: skip
    time.sleep(12)
    nodes = []
    for place in range(3):
        config = f'partition-id={place} here="{tmp_path}" tacit-book="{tmp_path}/book-{place}.db"'
        nodes.append(start(f"node-{place}", str(BIN / "flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{port}", "--port",
                           str(free_port()), "--node-config", config))  # fmt: skip
    time.sleep(12)
    start("run", str(BIN / "flwr"), "run", str(project), "here")
    wait_for(tmp_path / "training-2", 420)
    kill(nodes[2])  # in mid-round: it has handed out shares, and trains
    wait_for(out, 600)  # a killed node is waited for
    time.sleep(0.5)
    found = json.loads(out.read_text())
    assert found["void"] == 0 and found["survivors"] == 2
    # The mean over three planned clients of the two that are left, to the noise of a twentieth of a clip.
    for weight, expected in zip(found["weights"], (0.25 + 0.5 / 9, 0.25 + 0.5 / 9, 0.25, 0.25), strict=True):
        assert abs(weight - expected) < 0.12
    assert found["excluded"] == [{"masked": 1}]  # by the name of the phase alone
    assert json.loads(Path(f"{out}.sum").read_text()) == sums_without_sockets()
    for name in ("superlink", "node-0", "node-1"):
        assert b"Traceback" not in (tmp_path / f"{name}.log").read_bytes()
