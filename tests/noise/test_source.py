"""Seeds exist in test mode only; draws made there are told from private ones; nothing else in the package makes randomness."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import noise
from tacit.accounting import ParameterError
from tacit.noise import SeedRefusedError, discrete_gaussian, discrete_laplace, is_private, permutation, test_mode, watch

PACKAGE = Path(noise.__file__).resolve().parent.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def sample() -> list[Any]:
    wide = discrete_gaussian(1e30, size=3).tolist()
    return [discrete_laplace(10**9), discrete_laplace(100, size=5).tolist(), wide, permutation(20).tolist()]


def test_test_mode_repeats_and_seeds_differ() -> None:
    with test_mode(1):
        first, second = sample(), sample()
    with test_mode(1):
        assert sample() == first
    with test_mode(2):
        assert sample() != first
    assert first != second, "the stream goes on"
    assert sample() != first


def test_draws_outside_never_repeat() -> None:
    with test_mode(1):
        inside = sample()
    assert sample() != inside
    with test_mode(1):
        assert sample() == inside, "private draws in between take nothing from the test's stream"


@pytest.mark.parametrize("value", ["1", "true", "yes", "00"])
def test_production_refuses_test_mode(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_PRODUCTION", value)
    with pytest.raises(SeedRefusedError, match="TACIT_PRODUCTION"), test_mode(1):
        pytest.fail("not entered")
    assert is_private()


@pytest.mark.parametrize("value", ["", "0"])
def test_zero_is_not_production(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_PRODUCTION", value)
    with test_mode(1):
        assert not is_private()


@pytest.mark.parametrize("bad", [-1, 1.5, None, "1", True, math.nan], ids=repr)
def test_bad_seeds_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ParameterError, match="seed"):
        test_mode(bad)


def test_a_watch_sees_draws_of_test_mode_and_only_those() -> None:
    with watch() as seen:
        discrete_laplace(3)
        discrete_laplace(3, size=10)
    assert seen.private and seen.mark == ""
    with watch() as seen, test_mode(1):
        pass
    assert seen.private, "test mode without a draw makes nothing public"
    with watch() as seen:
        with test_mode(1):
            discrete_laplace(3)
        discrete_laplace(3)
    assert not seen.private and seen.mark == "NOT PRIVATE"


@pytest.mark.parametrize(
    "draw",
    [
        *(lambda: noise.bernoulli(0.5), lambda: noise.bernoulli_exp(1), lambda: noise.choose([0, 1])),
        *(lambda: noise.choose_weighted([1, 1]), lambda: noise.rounded_laplace(3), lambda: noise.rounded_gaussian(3)),
        *(lambda: noise.discrete_gaussian(3), lambda: noise.discrete_laplace(3), lambda: noise.geometric(3), lambda: noise.permutation(3)),
        *(lambda: noise.uniform_integers(3), lambda: noise.discrete_laplace(1e6, size=3), lambda: noise.discrete_gaussian(1e6, size=3)),
    ],
    ids=[
        *("coin", "exp coin", "choose", "weighted", "rounded laplace", "rounded gaussian", "gaussian", "laplace"),
        *("geometric", "permutation", "uniform", "wide laplace", "wide gaussian"),
    ],
)
def test_every_draw_is_seen(draw: Any) -> None:
    with watch() as seen, test_mode(1):
        draw()
    assert not seen.private
    with watch() as seen:
        draw()
    assert seen.private


def test_watches_nest() -> None:
    with watch() as outer:
        with watch() as first:
            discrete_laplace(3)
        with watch() as second, test_mode(1):
            discrete_laplace(3)
        with watch() as third:
            discrete_laplace(3)
    assert [outer.private, first.private, second.private, third.private] == [False, True, False, True]


def test_test_modes_nest() -> None:
    with test_mode(1):
        first = discrete_laplace(1e6, size=3).tolist()
        with test_mode(1):
            assert discrete_laplace(1e6, size=3).tolist() == first
        assert discrete_laplace(1e6, size=3).tolist() != first
    assert is_private()


def test_an_error_inside_leaves_test_mode() -> None:
    with pytest.raises(ZeroDivisionError), watch(), test_mode(1):
        raise ZeroDivisionError
    assert is_private()
    with watch() as seen:
        discrete_laplace(1)
    assert seen.private


def test_a_pool_is_neither_filled_nor_read_in_test_mode() -> None:
    """Private values drawn ahead must not run out in test mode, nor test values come out later as private ones."""
    with test_mode(1):
        first = [discrete_laplace(12345678) for _ in range(5)]
    outside = [discrete_laplace(12345678) for _ in range(5)]
    with test_mode(1):
        assert [discrete_laplace(12345678) for _ in range(5)] == first
    assert not set(first) & set(outside)


def test_a_new_thread_is_private_and_a_copied_context_is_not() -> None:
    found: dict[str, bool] = {}

    def look(name: str) -> None:
        discrete_laplace(3)
        found[name] = is_private()

    with watch() as seen, test_mode(1):
        bare = threading.Thread(target=look, args=("bare",))
        bare.start()
        bare.join()
    assert found == {"bare": True} and seen.private
    with watch() as seen, test_mode(1):
        context = contextvars.copy_context()
        carried = threading.Thread(target=context.run, args=(look, "carried"))
        carried.start()
        carried.join()
    assert not found["carried"] and not seen.private


def test_test_mode_of_one_task_is_not_that_of_another() -> None:
    async def tested() -> list[bool]:
        with test_mode(1):
            await asyncio.sleep(0)
            return [is_private()]

    async def plain() -> list[bool]:
        with watch() as seen:
            await asyncio.sleep(0)
            discrete_laplace(3)
            return [is_private(), seen.private]

    async def both() -> list[list[bool]]:
        return list(await asyncio.gather(tested(), plain()))

    assert asyncio.run(both()) == [[False], [True, True]]


SEED_NAMES = {"seed", "seeds", "random_seed", "random_state", "rng", "prng", "random_generator", "bit_generator"}


def seeds_in(source: str) -> set[str]:
    """Names of functions with a parameter for a seed."""
    found: set[str] = set()
    if not any(name in source for name in SEED_NAMES):
        return found  # a name of the tree is a word of the text
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, [arguments.vararg, arguments.kwarg])]
            if {argument.arg for argument in every} & SEED_NAMES:
                found.add(getattr(node, "name", "lambda"))
    return found


# An audit is an experiment and must be repeatable; the noise it draws is in test mode then, and what it reports is no release.
# An estimator takes `random_state` because scikit-learn's tools set it, and refuses any but None outside test mode.
# An evaluation of synthetic rows is an experiment too, for the curator's eyes.
SEEDED = (
    "audit/", "cli/audit.py", "learning/", "synthesis/blinded.py", "synthesis/evaluate.py",
    # generators of made-up data and simulations of public laws, beside what draws noise
    "applications/energy/charging.py", "applications/energy/meters.py", "applications/health/beacon_attack.py",
    "applications/health/simulation.py", "applications/health/survival.py", "applications/vision/reidentify.py", "workloads/bench.py",
    # coins in use, which protect no data
    "fairness/game.py", "fairness/thresholds.py",
)  # fmt: skip


def test_no_signature_takes_a_seed() -> None:
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(SEEDED):
            continue
        # test_mode and its source; made-up rows, which are drawn in test mode
        allowed = {"__init__"} if name in ("noise/source.py", "ledger/paying.py") else set()
        assert seeds_in(path.read_text(encoding="utf-8")) == allowed, name


def test_a_signature_with_a_seed_is_caught() -> None:
    assert seeds_in("def fit(x, *, random_state=None): pass\ndef g(x): pass") == {"fit"}


# What may be random without being noise: it never touches a released value, and says why here.
EXEMPT = {
    "audit/experiment.py": {"numpy.random"},  # which record goes into which half of an experiment; never noise
    "deep/loader.py": {"numpy.random", "random"},  # chance is put back before a collate function is run again; nothing is drawn
    "ledger/store.py": {"random"},  # how long to wait before asking a locked database again
    "ledger/governance.py": {"secrets"},  # a mark that tells one decision from another
    "tables/answer.py": {"numpy.random"},  # outcomes that could as well have been released, drawn around what was: post-processing
    "server/api/calling.py": {"secrets"},  # tokens of forms
    "server/claims.py": {"secrets"},  # the name of a worker
    "server/database.py": {"secrets"},  # numbers of objects, and the key of a service
    "server/grid.py": {"secrets"},  # a key for a grid that belongs to no service; never noise
    "server/oidc.py": {"secrets"},  # state, nonce and verifier of a sign-in
    "server/pages/ask.py": {"secrets"},  # the key of a question, in its form
    "server/people.py": {"secrets"},  # tokens, links and sessions
    "tables/remote.py": {"secrets"},  # the key of a question
    "tables/sandbox.py": {"numpy.random"},  # made-up rows, never noise
    "ledger/journal.py": {"secrets"},  # the salt of a book
    "release/rehearsal.py": {"numpy.random", "random"},  # samples of public data, for a baseline; never noise
    "release/page.py": {"numpy.random"},  # outcomes that could as well have been released: post-processing
    "release/kinds/model.py": {"numpy.random"},  # made-up rows that an attack is about, never noise
    "release/dummy.py": {"numpy.random"},  # public data, never noise
    "synthesis/blinded.py": {"numpy.random"},  # the order of a sheet of rows for the curator; never noise
    "synthesis/constraints.py": {"numpy.random"},  # values within a cell of a published model: post-processing, never noise
    "synthesis/evaluate.py": {"numpy.random", "scipy.stats"},  # halves of rows in an experiment for the curator; ranks; never noise
    "synthesis/columns.py": {"numpy.random"},  # values within a cell of a published model: post-processing, never noise
    "synthesis/sample.py": {"numpy.random"},  # rows drawn from a published model: post-processing, never noise
    "tables/dummy.py": {"numpy.random"},  # made-up rows, never noise
    "federated/secure_sum/shamir.py": {"os.urandom"},  # coefficients that hide a key's shares; never noise
    "federated/kept.py": {"secrets"},  # names of files
    "federated/rounds.py": {"secrets"},  # the name of a run
    "federated/threats.py": {"secrets"},  # the key of a model of confidential computation
    "release/work.py": {"secrets"},  # the name of an unfinished run
    "applications/energy/charging.py": {"numpy.random"},  # a made-up month, for the example
    "applications/energy/meters.py": {"numpy.random"},  # made-up homes, for the example
    "applications/health/beacon_attack.py": {"numpy.random"},  # made-up people of an attack
    "applications/health/clinical.py": {"numpy.random"},  # the law of the noise simulated for intervals: post-processing
    "applications/health/contingency.py": {"numpy.random"},  # the law of a statistic simulated for its p-value: post-processing
    "applications/health/simulation.py": {"numpy.random"},  # the law of the noise simulated for intervals: post-processing
    "applications/health/survival.py": {"numpy.random"},  # the same for curves
    "applications/vision/reidentify.py": {"numpy.random"},  # weights of a hash that tells equal pictures apart
    "audit/selftest/local_cases.py": {"numpy.random"},  # how people of an attack answer
    "fairness/allocation.py": {"numpy.random"},  # studies of public counts
    "fairness/game.py": {"numpy.random"},  # which hypothesis decides in use: protects no data
    "fairness/thresholds.py": {"numpy.random"},  # coins of a correction in use: protect no data
    "local/graphs.py": {"numpy.random"},  # a made-up graph from released counts: post-processing
    "local/recommender.py": {"numpy.random"},  # public starting factors
    "synthesis/networks.py": {"numpy.random"},  # starting weights and made-up rows; noise and batches are of tacit.deep
    "synthesis/neural.py": {"numpy.random"},  # the same
    "synthesis/neural_synthesizer.py": {"numpy.random"},  # made-up rows from a released maker: post-processing
    "synthesis/pate_gan.py": {"numpy.random"},  # starting weights, and which teacher a person goes to; votes get their noise from PATE
    "synthesis/relational.py": {"numpy.random"},  # rows drawn from published models: post-processing
    "synthesis/synthesizer.py": {"numpy.random"},  # the same
    "workloads/bench.py": {"numpy.random"},  # made-up histograms
}
RULES = ("random", "secrets", "numpy.random", "scipy.stats", "os.urandom", "os.getrandom")


def randomness_in(source: str) -> set[str]:
    """Modules of random numbers that are imported or reached through numpy, and direct calls to the operating system's source."""
    found: set[str] = set()
    if not any(rule.rpartition(".")[2] in source for rule in RULES):
        return found  # a name of the tree is a word of the text
    tree = ast.parse(source)
    modules = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names = [f"{ {'np': 'numpy'}.get(node.value.id, node.value.id)}.{node.attr}"]
        found |= {rule for rule in RULES for name in names if name == rule or name.startswith(f"{rule}.")}
    return found


def test_only_this_package_makes_randomness() -> None:
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        if "noise" not in Path(name).parts:
            assert randomness_in(path.read_text(encoding="utf-8")) <= EXEMPT.get(name, set()), name


@pytest.mark.parametrize(
    "line",
    [
        *("import random", "from secrets import token_hex", "import numpy as np\nnp.random.default_rng()"),
        *("from numpy import random", "import os\nos.urandom(8)"),
    ],
    ids=["random", "secrets", "numpy attribute", "numpy import", "urandom"],
)
def test_another_source_of_randomness_is_caught(line: str) -> None:
    assert randomness_in(line)


def test_the_production_source_cannot_be_seeded() -> None:
    """numpy's and Python's own seeds change nothing."""
    import random

    def after_seeding() -> list[int]:
        np.random.seed(1)
        random.seed(1)
        return [discrete_laplace(10**9) for _ in range(3)] + discrete_laplace(10**9, size=3).tolist()

    assert after_seeding() != after_seeding()
