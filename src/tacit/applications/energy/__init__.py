"""Energy: networks, charging sessions and meters, from the files that their operators have.

A grid operator brings a MATPOWER case or a pandapower network and publishes one whose loads are protected and whose
cost is kept. A charging operator brings ACN-Data and publishes histograms and its busiest day. A metering company
brings readings and publishes load profiles, with the household as the unit.

>>> from tacit.applications.energy import Network, release_case
>>> released = release_case(Network.nine_buses(), change=5, epsilon=1, cost=5216.03, band=0.01)
>>> released.to_matpower().splitlines()[0]
'function mpc = nine_buses_released'

The names, by what they are for:

- networks: `Network`; their cheapest generation: `dispatch`; how far one load moves it: `jacobian`, `monotonicity`,
  `Congestion`
- releases of a network: `release_case` (the default), `PaidCost`, `CasePlan`; sums and smooth questions of the true
  dispatch, with their price first: `plan_regions`, `plan_query`, `serves`; the attack on sums: `disaggregate`,
  `attack_regions`
- charging sessions: `read_acn`, `request_histogram`, `busiest_day`; meters: `load_profile`, `occupied`, `running`,
  `attack_profile`; made-up data: `made_up_month`, `made_up_homes`
- pictures: `draw_charging`, `draw_busiest_day`, `draw_congestion`, `draw_release`, `draw_disaggregation`

pandapower is needed for its own networks alone: `pip install 'tacit[energy]'`.
"""

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    # isort: off
    from tacit.applications.energy.charging import (
        BusiestDay, DayPlan, EnergyHistogram, HistogramPlan, busiest_day, made_up_month, noise_of_bins, plan_busiest_day,
        plan_histogram, read_acn, request_histogram,
    )
    from tacit.applications.energy.disaggregate import Disaggregation, attack_regions, disaggregate
    from tacit.applications.energy.dispatch import Dispatch, dispatch
    from tacit.applications.energy.errors import EnergyError
    from tacit.applications.energy.meters import (
        Homes, MeterAttack, ProfileAttack, attack_curve, attack_profile, checked_clamp, load_profile, made_up_homes,
        occupied, profile_question, running,
    )
    from tacit.applications.energy.network import Network
    from tacit.applications.energy.pictures import (
        draw_busiest_day, draw_charging, draw_congestion, draw_disaggregation, draw_ratio, draw_release,
    )
    from tacit.applications.energy.private_case import CasePlan, PaidCost, ReleasedCase, protected_unit, release_case
    from tacit.applications.energy.regions import DispatchPlan, ReleasedFigures, plan_query, plan_regions, serves
    from tacit.applications.energy.sensitivity import Congestion, Monotonicity, count_sets, jacobian, monotonicity
    # isort: on

#: Where the names are at home.
__getattr__, __dir__ = lazily(__name__, {
    "charging": (
        "BusiestDay", "DayPlan", "EnergyHistogram", "HistogramPlan", "busiest_day", "made_up_month", "noise_of_bins",
        "plan_busiest_day", "plan_histogram", "read_acn", "request_histogram",
    ),
    "disaggregate": ("Disaggregation", "attack_regions", "disaggregate"),
    "dispatch": ("Dispatch", "dispatch"),
    "errors": ("EnergyError",),
    "meters": (
        "Homes", "MeterAttack", "ProfileAttack", "attack_curve", "attack_profile", "checked_clamp", "load_profile",
        "made_up_homes", "occupied", "profile_question", "running",
    ),
    "network": ("Network",),
    "pictures": (
        "draw_busiest_day", "draw_charging", "draw_congestion", "draw_disaggregation", "draw_ratio", "draw_release",
    ),
    "private_case": ("CasePlan", "PaidCost", "ReleasedCase", "protected_unit", "release_case"),
    "regions": ("DispatchPlan", "ReleasedFigures", "plan_query", "plan_regions", "serves"),
    "sensitivity": ("Congestion", "Monotonicity", "count_sets", "jacobian", "monotonicity"),
})  # fmt: skip

__all__ = [
    "BusiestDay", "CasePlan", "Congestion", "DayPlan", "Disaggregation", "Dispatch", "DispatchPlan", "EnergyError",
    "EnergyHistogram", "HistogramPlan", "Homes", "MeterAttack", "Monotonicity", "Network", "PaidCost", "ProfileAttack",
    "ReleasedCase", "ReleasedFigures", "attack_curve", "attack_profile", "attack_regions", "busiest_day",
    "checked_clamp", "count_sets", "disaggregate", "dispatch", "draw_busiest_day", "draw_charging", "draw_congestion",
    "draw_disaggregation", "draw_ratio", "draw_release", "jacobian", "load_profile", "made_up_homes", "made_up_month",
    "monotonicity", "noise_of_bins", "occupied", "plan_busiest_day", "plan_histogram", "plan_query", "plan_regions",
    "profile_question", "protected_unit", "read_acn", "release_case", "request_histogram", "running", "serves",
]  # fmt: skip
