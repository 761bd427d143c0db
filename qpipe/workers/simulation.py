"""Serve environment: what answers for both simulations, as a vLLM worker extension.

vLLM only logs a plugin that fails, and serves on: what is not asked here is served around.
"""

from __future__ import annotations

import os

import simulation_activations

kv_calls: dict[str, int] = {}
if "QPIPE_KV_DTYPE" in os.environ:
    from simulation_kv import calls as kv_calls


class Extension:
    """Methods vLLM adds to its worker."""

    def qpipe_simulation(self) -> dict[str, dict[str, int]]:
        """Calls with rounded numbers: ``kv`` by layer index, ``activations`` by module."""
        return {"kv": kv_calls, "activations": simulation_activations.calls}
