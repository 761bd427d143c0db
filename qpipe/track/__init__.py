"""Logs a release to MLflow: a parent run, and a nested run a variant."""

from qpipe.track._track import track

__all__ = ["track"]
