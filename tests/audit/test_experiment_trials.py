from __future__ import annotations

import math
import os
import sys
import types

import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import map_trials


def square(x: int) -> int:
    return x * x


def test_order_is_kept_in_threads_and_processes() -> None:
    items = list(range(6))
    local = lambda x: x * x  # noqa: E731
    assert map_trials(local, items, workers=2) == [x * x for x in items]
    assert map_trials(math.sqrt, items, workers=2) == [math.sqrt(x) for x in items]


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="asks the kernel which process it is")
def test_processes_are_others_and_what_they_cannot_load_runs_in_threads() -> None:
    mine = os.readlink("/proc/self")
    assert mine not in map_trials(os.readlink, ["/proc/self"] * 2, workers=2)
    module = types.ModuleType("nowhere_to_be_found")
    sys.modules[module.__name__] = module
    exec("def f(x): return x + 1", module.__dict__)  # can be pickled here, not loaded there
    try:
        assert map_trials(module.f, [1, 2], workers=2) == [2, 3]
    finally:
        del sys.modules[module.__name__]


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert map_trials(square, [1, 2], progress=True, what="squares") == [1, 4]
    assert "squares" in capsys.readouterr().out


def test_no_workers_are_refused() -> None:
    with pytest.raises(ParameterError, match="workers"):
        map_trials(square, [1], workers=0)
