"""The pictures of the energy chapter, redrawn on made-up or public data: Figures 10.1 to 10.3, and what attacks find.

Writes them into the directory given. The charging month is made up in the shape that the book reports of November 2019;
the network is the public one of nine buses.

    python examples/energy_figures.py pictures
    python examples/energy_figures.py pictures --quick
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from tacit.applications import energy
from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit

BINS = tuple(range(0, 101, 5))
EPSILONS = (0.1, 0.2, 0.4, 0.8)
REGIONS = {"west": [1, 4, 5, 9], "east": [2, 3, 6, 7, 8]}


def charging(folder: Path) -> None:
    """Figures 10.1 and 10.2: requested energy for four epsilons, and how the busiest day is chosen."""
    rows = energy.read_acn(energy.made_up_month(), zone="America/Los_Angeles")
    with tempfile.TemporaryDirectory() as place:
        ledger = Ledger.open(f"sqlite:///{Path(place) / 'tacit.db'}")
        session = Session(rows, unit=Unit.row(), budget=Budget(epsilon=3), name="charging", ledger=ledger)
        found = [energy.request_histogram(session, BINS, epsilon=e) for e in EPSILONS]
        ledger.close()
    asked = [x for x in rows.column("kwh_requested").to_pylist() if x is not None]
    labels = [f"epsilon {e:g}" for e in EPSILONS]
    energy.draw_charging(found, labels, folder / "figure_10_1.png", truth=np.histogram(asked, BINS)[0].tolist())
    days: dict[str, float] = {}
    for day, kwh in zip(rows.column("day").to_pylist(), rows.column("kwh_delivered").to_pylist(), strict=True):
        days[day.isoformat()] = days.get(day.isoformat(), 0.0) + kwh
    days = dict(sorted(days.items()))
    scores = np.array(list(days.values()))
    chances = {}
    for epsilon in (0.1, 0.5, 1, 5):
        weights = np.exp(epsilon / 100 * (scores - scores.max()))  # a clamp of 100 kWh
        chances[f"epsilon {epsilon:g}"] = (weights / weights.sum()).tolist()
    energy.draw_busiest_day(days, chances, folder / "figure_10_2.png")


def grid(folder: Path, runs: int) -> None:
    """Figure 10.3, a released network, and the attack on regional sums."""
    network = energy.Network.nine_buses()
    energy.draw_congestion(network, folder / "figure_10_3.png")
    released = energy.release_case(network, change=5, epsilon=1, cost=5216.03, band=0.01)
    energy.draw_release(released, folder / "released_loads.png", truth=network)
    again = energy.dispatch(released.network).cost
    print(f"released nine buses: cost {again:.2f} beside {released.cost:.2f}, within {abs(again / released.cost - 1):.2%}")
    rows = energy.attack_regions(
        network, REGIONS, bus=9, change=5, epsilons=(0.1, 1, 10, 100), box=(30, 150), runs=runs
    )
    energy.draw_disaggregation(rows, folder / "disaggregation.png")
    for row in rows:
        print(f"epsilon {row.epsilon:g}: a guess of the load at bus 9 is off by {row.knowing_all_others:.3g} MW on average")


def main(arguments: list[str]) -> None:
    places = [argument for argument in arguments if argument != "--quick"]
    folder = Path(places[0] if places else ".")
    folder.mkdir(parents=True, exist_ok=True)
    charging(folder)
    grid(folder, 20 if "--quick" in arguments else 400)
    print("wrote", *sorted(file.name for file in folder.glob("*.png")))


if __name__ == "__main__":
    main(sys.argv[1:])
