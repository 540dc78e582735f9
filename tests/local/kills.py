"""A real kill at any system call: an action runs in a process of its own, which is stopped at its k-th call and killed there.

The process is traced (Linux). It stops on the way into every system call and on the way out, so kills at each stop in turn leave the files
in every state that `kill -9` can leave them in, whoever made the call: this package, Python or SQLite.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_TRACE_ME, _SYSCALL = 0, 24
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _ptrace(request: int, process: int) -> bool:
    assert _libc is not None
    return bool(_libc.ptrace(ctypes.c_long(request), ctypes.c_long(process), ctypes.c_long(0), ctypes.c_long(0)) == 0)


def possible() -> bool:
    """Whether processes can be traced here; some containers forbid it."""
    if _libc is None:
        return False
    child = os.fork()
    if child == 0:
        os._exit(0 if _ptrace(_TRACE_ME, 0) else 1)
    return os.waitpid(child, 0)[1] == 0


def killed(action: Callable[[], object], stop: int) -> bool:
    """Run the action in a traced process and kill it at its `stop`-th stop; whether it came to its end before."""
    child = os.fork()
    if child == 0:  # nothing of pytest may run in here
        try:
            _ptrace(_TRACE_ME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.waitpid(child, 0)
    for _ in range(stop):
        assert _ptrace(_SYSCALL, child)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the action failed"
            return True
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return False
