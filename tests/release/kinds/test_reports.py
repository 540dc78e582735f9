"""`kind: reports` in a job: planned, counted, published and recorded as Local or Shuffle, and nothing booked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyarrow import csv

from tacit.accounting import Adjacency, Repeated, Shuffled, account
from tacit.ledger import Ledger
from tacit.local import (
    Client,
    Collector,
    Protocol,
    Shuffler,
    Taxonomy,
    frequencies,
    marginal_shares,
    means,
    range_shares,
    schema,
    sketched,
    to_batch,
    vector_means,
    zone_protocol,
)
from tacit.release import plan, run
from tacit.release.errors import JobError
from tacit.release.job import parse
from tacit.release.kinds.reports import EXAMPLE
from tacit.release.report import read, render

EMOJI = ["smile", "wink", "cry", "laugh"]
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def job_with(**changes: object):  # type: ignore[no-untyped-def]
    """The example's job with other parts."""
    tree = yaml.safe_load(EXAMPLE)
    for name, value in changes.items():
        tree[name] = value
    return parse(yaml.safe_dump(tree))


def people(n: int) -> list[str]:
    return np.repeat(EMOJI, (SHARES * n).astype(int)).tolist()


def written(path: Path, protocol: Protocol, batches: list[pa.RecordBatch]) -> None:
    path.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


@pytest.fixture
def emoji(tmp_path: Path) -> Protocol:
    protocol = frequencies(EMOJI, epsilon=1)
    protocol.write(tmp_path / "emoji.json")
    written(tmp_path / "in" / "a.arrow", protocol, [to_batch(protocol, people(20_000))])
    return protocol


def test_a_local_job_books_nothing_and_says_what_was_promised(tmp_path: Path, emoji: Protocol) -> None:
    job = job_with(
        unit={"reports": 3, "adjacency": "replace-one"},
        budget={"epsilon": 3, "delta": 0},
        expected={"people": 20_000},
    )
    planned = plan(job, base=tmp_path)
    assert planned.event == Repeated(emoji.event, 3) and planned.cost.upper == 3
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    done = run(job, base=tmp_path, ledger=book)
    assert not any(book.account("Emoji of the month").spent().known().values())
    table = csv.read_csv(done.folder / "emoji.csv").to_pydict()
    assert table["value"] == EMOJI
    # at six deviations a right estimate fails once in 1e8 draws
    assert (abs(np.array(table["share"]) - SHARES) < 6 * emoji.randomiser.variance(20_000, 0.4) ** 0.5).all()
    record = json.loads((done.folder / "release.json").read_text())
    assert record["deployment"] == {
        "model": "Local", "against": "everyone, the collector included", "one report": "1", "lifetime": "3",
        "reports of one person": 3, "shuffled at least": [None],
    }  # fmt: skip
    assert record["total"]["epsilon at delta 0"]["upper"] == 3 and record["budget"] == {"pure": "0"}
    assert record["outputs"][0]["reports"] == 20_000 and record["outputs"][0]["protocol"] == json.loads(
        emoji.to_json()
    )
    registry = yaml.safe_load((done.folder / "registry.yaml").read_text())
    assert registry["deployment_model"]["model_name"] == "Local"
    assert registry["privacy_loss"]["privacy_parameters"]["epsilon"] == 3
    page = (done.folder / "report.html").read_text()
    assert (
        "each person who reports" in page
        and "the collector included" in page
        and "rows and values that caps" not in page
    )
    assert render(read(done.folder / "report.html")) == page


def test_a_shuffled_job_is_priced_by_its_smallest_batch(tmp_path: Path) -> None:
    protocol = frequencies(EMOJI, epsilon=1)
    protocol.write(tmp_path / "emoji.json")
    batches = []
    for _ in range(2):
        shuffler = Shuffler(protocol, at_least=5000)
        batches.append(shuffler.add(to_batch(protocol, people(10_000))).release())
    written(tmp_path / "in" / "a.arrow", protocol, batches)
    source = {"emoji": {"reports": "in/*.arrow", "protocol": "emoji.json", "shuffled": {"at_least": 10_000}}}
    job = job_with(sources=source, budget={"epsilon": 0.1, "delta": 1e-6}, expected={"people": 20_000})
    done = run(job, base=tmp_path)
    price = account(Shuffled(protocol.event, 10_000), Adjacency.REPLACE_ONE).epsilon(1e-6)
    assert done.plan.cost == price and done.answers["emoji"].n == 20_000
    record = json.loads((done.folder / "release.json").read_text())["deployment"]
    assert (
        record["model"] == "Shuffle"
        and record["lifetime"] == "1"
        and "only the shuffled batches" in record["against"]
    )
    assert (
        yaml.safe_load((done.folder / "registry.yaml").read_text())["deployment_model"]["model_name"]
        == "Shuffle"
    )
    # one batch that is smaller than what was priced is refused before anything is counted
    small = {"emoji": {**source["emoji"], "shuffled": {"at_least": 10_001}}}
    with pytest.raises(JobError, match=r"sources.emoji.shuffled.at_least: a batch has fewer") as refused:
        run(
            job_with(sources=small, budget={"epsilon": 0.1, "delta": 1e-6}, publication=other(tmp_path)),
            base=tmp_path,
        )
    assert "wink" not in str(refused.value)


def other(tmp_path: Path) -> dict[str, object]:
    return {"folder": str(tmp_path / "other"), "formats": ["csv"], "confidence": 0.95}


def test_reports_with_nonces_do_not_count_as_shuffled(tmp_path: Path, emoji: Protocol) -> None:
    source = {"emoji": {"reports": "in/*.arrow", "protocol": "emoji.json", "shuffled": {"at_least": 1000}}}
    job = job_with(sources=source, budget={"epsilon": 0.5, "delta": 1e-6})
    with pytest.raises(
        JobError, match="at least two reports"
    ):  # all are dropped as mixed, and nothing is published
        run(job, base=tmp_path)
    assert not (tmp_path / "release").exists()


def test_garbled_files_change_the_dropped_only(tmp_path: Path, emoji: Protocol) -> None:
    whole = (tmp_path / "in" / "a.arrow").read_bytes()
    (tmp_path / "in" / "b.arrow").write_bytes(b"garbled")
    (tmp_path / "in" / "c.arrow").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "in" / "d.arrow").write_bytes(whole)
    foreign = frequencies(EMOJI, epsilon=2)
    written(tmp_path / "in" / "e.arrow", foreign, [to_batch(foreign, people(100))])
    done = run(job_with(), base=tmp_path)
    found = done.answers["emoji"]
    assert found.n == 20_000
    assert found.dropped == {"foreign": 100, "repeated": 20_000, "unreadable": 2}


def test_a_file_of_counts_is_read_as_it_is(tmp_path: Path, emoji: Protocol) -> None:
    Collector(emoji, tmp_path / "counts.db").ingest_stream(tmp_path / "in" / "a.arrow")
    job = job_with(sources={"emoji": {"reports": "counts.db", "protocol": "emoji.json"}})
    assert run(job, base=tmp_path).answers["emoji"].n == 20_000
    shuffled = {"emoji": {"reports": "counts.db", "protocol": "emoji.json", "shuffled": {"at_least": 10}}}
    with pytest.raises(JobError, match="does not say how large the batches were"):
        run(
            job_with(sources=shuffled, budget={"epsilon": 1, "delta": 1e-6}, publication=other(tmp_path)),
            base=tmp_path,
        )


class Stopped(Exception):
    pass


@pytest.mark.parametrize("at", ["reserved", "begun", "drawn", "stored", "staged", "concluded"])
def test_a_stopped_run_goes_on_and_books_nothing_twice(tmp_path: Path, emoji: Protocol, at: str) -> None:
    def stop(step):  # type: ignore[no-untyped-def]
        if step.name == at:
            raise Stopped

    book, job = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}"), job_with()
    with pytest.raises(Stopped):
        run(job, base=tmp_path, ledger=book, progress=stop)
    # a draw that was begun and lost is begun anew at no price: reports are added up, not drawn
    done = run(job, base=tmp_path, ledger=book, lost="correct")
    assert done.answers["emoji"].n == 20_000
    assert not any(book.account("Emoji of the month").spent().known().values())
    assert json.loads((done.folder / "release.json").read_text())["total"]["epsilon at delta 0"]["upper"] == 1


def test_what_cannot_be_promised_is_refused(tmp_path: Path, emoji: Protocol) -> None:
    rows = {
        "visits": {"path": "visits.parquet"},
        "emoji": {"reports": "in/*.arrow", "protocol": "emoji.json"},
    }
    cases: list[tuple[dict[str, object], str]] = [
        ({"unit": {"reports": 2, "adjacency": "replace-one"}}, "all reports that one person ever sends cost"),
        ({"unit": {"reports": 1, "adjacency": "add-remove"}}, "replaced by others"),
        ({"unit": {"row": True, "adjacency": "replace-one"}}, "draws of one person"),
        ({"sources": rows}, "not both"),
        ({"sources": {"emoji": {"reports": "in/*.arrow"}}}, "stand together"),
        ({"sources": {"emoji": {"reports": "in/*.arrow", "protocol": "none.json"}}}, "cannot be read"),
        ({"expected": {}}, "expected.people: is missing"),
        ({"outputs": [{"name": "a", "sql": "SELECT 1 AS n", "weight": 1}]}, "kind: reports"),
        (
            {"outputs": [{"name": n, "kind": "reports", "source": "emoji"} for n in ("a", "b")]},
            "two outputs read",
        ),
        ({"outputs": [{"name": "a", "kind": "reports", "source": "emojis"}]}, "names no source"),
    ]
    for changes, words in cases:
        with pytest.raises(JobError, match=words):
            plan(job_with(**changes), base=tmp_path)
    with pytest.raises(JobError, match="there is no such file"):
        run(job_with(sources={"emoji": {"reports": "out/*.arrow", "protocol": "emoji.json"}}), base=tmp_path)
    tables = {"title": "T", "columns": {"a": {"type": "integer"}}, "sources": {"t": {"path": "t.csv"}}}
    with pytest.raises(JobError, match="are for sources with reports"):
        job_with(**tables)


def test_every_sort_of_answer_is_published(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    asked: dict[str, tuple[Protocol, list[object], dict[str, object]]] = {
        "age": (means(bounds=(0, 100), epsilon=1), random.normal(40, 10, 20_000).tolist(), {}),
        "use": (vector_means(3, bounds=(0, 1), epsilon=1), random.random((20_000, 3)).tolist(), {}),
        "year": (range_shares(64, epsilon=1), random.integers(10, 50, 20_000).tolist(), {"quantiles": [0.5]}),
        "row": (
            marginal_shares((2, 3), order=2, epsilon=1),
            random.integers(0, 2, (20_000, 2)).tolist(),
            {"marginals": [[0, 1], [1]]},
        ),
        "word": (sketched(epsilon=2), random.choice(["a", "b"], 20_000).tolist(), {"keys": ["a", "c"]}),
    }
    sources, outputs = {}, []
    for name, (protocol, held, more) in asked.items():
        protocol.write(tmp_path / f"{name}.json")
        written(tmp_path / f"{name}.arrow", protocol, [to_batch(protocol, held)])
        sources[name] = {"reports": f"{name}.arrow", "protocol": f"{name}.json"}
        outputs.append({"name": name, "kind": "reports", "source": name, **more})
    done = run(job_with(sources=sources, outputs=outputs, budget={"epsilon": 6, "delta": 0}), base=tmp_path)
    answers = done.answers
    truth = {"age": [40.0], "use": [0.5] * 3, "word": [0.5, 0.0]}
    for name, true in truth.items():
        part, wide = answers[name].parts[0], done.plan[name].errors_at(0.999999)
        # the expectation was for 10,000 people, so it is wider than what 20,000 give; six deviations in all
        assert np.abs(part.value - true).max() < 1.3 * next(iter(wide.values())), name
    median = answers["year"].parts[1]
    assert median.low[0] <= 29 <= median.high[0] and "year_2.csv" in {f.name for f in done.folder.iterdir()}
    assert answers["row"].parts[0].value.shape == (6,) and answers["row"].parts[1].value.shape == (3,)
    assert done.plan.cost.upper == 6  # a person may report to all five


def test_a_device_and_a_job_agree_on_the_lifetime(tmp_path: Path) -> None:
    protocol = frequencies(EMOJI, epsilon=1)
    protocol.write(tmp_path / "emoji.json")
    client = Client(protocol, ledger=tmp_path / "me.db", lifetime="eps=2", values=2)
    sent = [client.report("wink"), client.report("cry")]
    Collector(protocol, tmp_path / "counts.db").ingest(sent)
    job = job_with(
        sources={"emoji": {"reports": "counts.db", "protocol": "emoji.json"}},
        unit={"reports": 2, "adjacency": "replace-one"}, budget={"epsilon": 2, "delta": 0},
    )  # fmt: skip
    assert plan(job, base=tmp_path).event == client.event
    assert schema(protocol).names == ["nonce", "report"]


def test_personalised_privacy_is_not_published_as_local(tmp_path: Path) -> None:
    """A safe zone's price holds within the zone only; whatever says "Local" of it would claim more than was proved."""
    towns = Taxonomy({"north": ["a", "b"], "south": ["c", "d"]})
    zone_protocol(towns, "north", epsilon=1).write(tmp_path / "emoji.json")
    with pytest.raises(JobError, match="two places of one safe zone only"):
        plan(job_with(), base=tmp_path)
    zone_protocol(towns, towns.root, epsilon=1).write(tmp_path / "emoji.json")
    assert plan(job_with(), base=tmp_path).cost.upper == 1
