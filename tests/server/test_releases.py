"""Releases through the API: planned without data, paid from the data set's account, published once, files handed out by name."""

from __future__ import annotations

import io
import time

import pyarrow.parquet as pq
import yaml
from tests.server.house import House


def test_plan_run_and_files(own_house: House) -> None:
    planned = own_house.send("cleo", "POST", "/v1/releases", {"dataset": "visits"}).json()
    assert planned["state"] == "planned" and [output["name"] for output in planned["outputs"]] == ["by_region", "by_diagnosis"]
    assert own_house.service.ledger.verify().ok and own_house.send("ann", "GET", "/v1/releases").json() == []
    own_house.send("cleo", "POST", f"/v1/releases/{planned['id']}/run")
    until = time.monotonic() + 60
    while (found := own_house.send("cleo", "GET", f"/v1/releases/{planned['id']}").json())["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert found["state"] == "published", found
    assert {"by_region.csv", "by_region.parquet", "release.json", "report.html"} <= set(found["files"])
    again = own_house.send("cleo", "POST", f"/v1/releases/{planned['id']}/run").json()
    assert again["state"] == "published" and again["entry"] == found["entry"]
    file = own_house.send("ann", "GET", f"/v1/releases/{planned['id']}/by_region.parquet")
    assert pq.read_table(io.BytesIO(file.content)).num_rows == 6
    assert file.headers["content-disposition"].startswith("attachment")
    registered = own_house.send("ann", "GET", "/v1/registry").json()
    assert [one["release"] for one in registered] == [planned["id"]]
    assert yaml.safe_load(own_house.send("ann", "GET", f"/v1/releases/{planned['id']}/registry.yaml").text) == registered[0]["record"]
    accounts = {account["level"]: account for account in own_house.send("olga", "GET", "/v1/accounts").json()}
    assert 0.99 < accounts["data set"]["spent"]["epsilon"] <= 1.0
    entry = next(entry for entry in own_house.service.ledger.entries() if entry["kind"] == "reserve")
    assert entry["analyst"] == "cleo" and entry["seq"] == found["entry"]


def test_trainings_are_listed_with_what_they_cost(own_house: House) -> None:
    made = {
        "dataset": "visits", "name": "readmission", "unit": "patient", "complexity": "linear, beside a group-by",
        "attack_model": "black box", "environment": "one server", "data_window": "2025", "accuracy_needed": "within 5 points",
        "run": "training-1", "attacks": ["none found"],
    }  # fmt: skip
    from tacit.accounting import Gaussian

    account = own_house.service.datasets["visits"].account
    with account.paying(Gaussian(noise_multiplier=20), run="training-1", delta="1e-6", purpose="training"):
        pass
    assert own_house.send("cleo", "POST", "/v1/models", made).status_code == 201
    found = own_house.send("olga", "GET", "/v1/models").json()
    assert found["models"][0]["events"][0]["status"] == "done" and "epsilon" in found["totals"]["visits"]
    assert own_house.send("cleo", "POST", "/v1/models", {**made, "attacks": ["safe"]}).status_code == 422


def test_the_book_is_read_verified_and_exported(own_house: House) -> None:
    head = own_house.send("olga", "GET", "/v1/book/head").json()["head"]
    own_house.ask("ann", "a-question-in-the-book")
    entries = own_house.send("olga", "GET", "/v1/book/entries", None).json()
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    searched = own_house.send("olga", "GET", "/v1/book/entries?search=bed-planning").json()
    assert searched and len(searched) < len(entries)
    assert own_house.send("olga", "POST", "/v1/book/verify", {"head": head}).json()["ok"] is True
    wrong = f"{head.partition(':')[0]}:{'0' * 64}"
    told = own_house.send("olga", "POST", "/v1/book/verify", {"head": wrong}).json()
    assert told["ok"] is False and "cut or rewritten" in told["problems"][0]
    lines = own_house.send("olga", "GET", "/v1/book/export").text.splitlines()
    assert len(lines) == len(entries)
