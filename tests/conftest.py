"""Settings shared by all tests: reproducible draws and property tests, one thread, no display."""

from __future__ import annotations

import os

# Set before numpy or matplotlib is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import HealthCheck, settings

# `make test` draws the same examples every time, so a red run can be repeated by anybody; `make test-slow` looks for new ones.
# Deadlines are off: a busy machine must not fail a test of correctness.
settings.register_profile("tacit", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tacit")


def pytest_configure(config: pytest.Config) -> None:
    """Registered rather than defined here, so that it also holds for the examples in the sources, which are not below this folder."""
    from tests.streams import Streams, same_examples

    if config.getoption("--hypothesis-profile", None) != "thorough":
        same_examples()
    config.pluginmanager.register(Streams(), "tacit-streams")
