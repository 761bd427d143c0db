"""Isolated environments, and running workers in them."""

from qpipe.envs._sync import NAMES, Environment, described, environment, sync, unpack_package
from qpipe.envs._worker import run_worker, worker_hash

__all__ = [
    "NAMES",
    "Environment",
    "described",
    "environment",
    "run_worker",
    "sync",
    "unpack_package",
    "worker_hash",
]
