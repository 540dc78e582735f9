"""The demonstration: a made-up hospital, with a service's file, a job and an analyst, a curator and an officer.

>>> import tempfile
>>> place = write(tempfile.mkdtemp(), rows=1000)
>>> place.name, sorted(path.name for path in place.parent.iterdir())
('service.yaml', ['service.yaml', 'visits.parquet', 'visits.yaml'])
"""

from __future__ import annotations

from pathlib import Path

from tacit.release import write_visits

SERVICE = """\
# The service of a made-up hospital. Everything here is read when the service starts.
version: 1
listen: {host: 127.0.0.1, port: 8400}
grid: {step: 0.25 s}
datasets:
  visits: {job: visits.yaml, title: Hospital visits 2025}
purposes:
  bed-planning:
    datasets: [visits]
    who: planners of the regional hospitals
    statistics: counts and means of visits, nights and ages by region and diagnosis
    why: decide how many beds each region needs next year
    epsilon: 2
    basis: public task (made up)
    until: 2099-12-31
    flow: {subject: patients, sender: hospitals, recipient: bed planners, type: visits and stays, principle: statistics only}
  cost-report:
    datasets: [visits]
    who: auditors of the health budget
    statistics: sums and means of costs by region
    why: compare what the regions spend with their budgets
    columns: [region, cost, visit_date, diagnosis]
    kinds: [count, sum, avg]
    epsilon: 1
    basis: public task (made up)
    until: 2099-12-31
people:
  ann: {roles: [analyst], datasets: [visits], name: Ann (analyst)}
  ben: {roles: [analyst], datasets: [visits], name: Ben (analyst)}
  cleo: {roles: [curator], name: Cleo (curator)}
  olga: {roles: [officer], name: Olga (officer)}
limits: {approve_above: {epsilon: 0.5}, price_per_minute: 600}
"""

JOB = """\
# A data set of the service, and a release job: hospital visits of one year.
version: 1
title: Hospital visits 2025, tables
purpose: >-
  Show how visits, stays and costs differ between regions, ages and diagnoses, so that beds and money can be planned.
sources:
  visits: {path: visits.parquet}
unit: {person: patient_id, max_rows: 16, adjacency: add-remove}
budget: {epsilon: 1, delta: 1e-6}
account: {name: Hospital visits 2025, budget: {epsilon: 4, delta: 1e-5}}
expected: {people: 25000, rows: 100000}
columns:
  patient_id: {type: integer, nullable: false}
  visit_date: {type: date, nullable: false}
  region: {type: text, categories: [Capital, North, East, South, West, Islands]}
  sex: {type: text, categories: [female, male, other]}
  age: {type: integer, bounds: [0, 110]}
  diagnosis:
    type: text
    categories:
      [injury, respiratory, circulatory, digestive, pregnancy, mental health, cancer, infection, burns, poisoning,
       tropical disease, rare metabolic]
  nights: {type: integer, bounds: [0, 30]}
  cost: {type: number, bounds: [0, 5000]}
outputs:
  - name: by_region
    title: Visits, age and cost by region
    sql: SELECT region, COUNT(*) AS visits, AVG(age) AS age, AVG(cost) AS cost FROM visits GROUP BY region
    weight: 2
  - name: by_diagnosis
    title: Visits and nights by diagnosis
    sql: SELECT diagnosis, COUNT(*) AS visits, AVG(nights) AS nights FROM visits GROUP BY diagnosis
    weight: 1
publication: {folder: visits-2025, formats: [csv, parquet], confidence: 0.95}
registry:
  curator: Office for Health Statistics (made up)
  region: Nowhere
  sector: Health
  intended_use: Planning of beds and budgets
  authors: [Tacit]
"""


def write(folder: str | Path, *, rows: int = 100_000) -> Path:
    """Write the data, the job and the service's file into a folder, where they are not there yet; the service's file."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "visits.parquet").exists():
        write_visits(place / "visits.parquet", rows)
    job = JOB.replace("rows: 100000", f"rows: {rows}").replace("people: 25000", f"people: {max(1, rows // 4)}")
    for name, text in (("visits.yaml", job), ("service.yaml", SERVICE)):
        if not (place / name).exists():
            (place / name).write_text(text, encoding="utf-8")
    return place / "service.yaml"
