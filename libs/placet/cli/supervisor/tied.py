"""The command line of a child that does not outlive us."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_TIE = Path(__file__).with_name("tie.py")


def tied(command: Sequence[str], orphan_signal: signal.Signals) -> list[str]:
    """`command`, which gets `orphan_signal` when the process that calls this dies; call it there. Same process id."""
    return [sys.executable, "-I", "-S", str(_TIE), str(os.getpid()), str(int(orphan_signal)), *command]
