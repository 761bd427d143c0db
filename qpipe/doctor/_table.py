"""The examination as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["show"]

STYLES = {"native": "green", "simulated": "yellow", "unsupported": "red"}


def show(record: Mapping[str, Any], console: Console) -> None:
    """Print the machine, the environments and the table of schemes."""
    hardware = record["hardware"]
    console.print(", ".join(_machine(hardware)), highlight=False)
    flags = " ".join(hardware["cpu_flags"]) or "none that decides kernels"
    console.print(f"CPU features: {flags}; computes in {hardware['native_dtype']}", highlight=False)
    for name, env in record["environments"].items():
        versions = ", ".join(f"{package} {found}" for package, found in env["versions"].items())
        mend = "" if env["state"] == "ready" else f" (run `qpipe env sync {name}`)"
        said = f"{env['state']}{mend}{': ' if versions else ''}{versions}"
        console.print(f"environment {name}: {said}", highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scheme", "here", "weights", "activations", "KV", "kernel", "verified", "why"):
        table.add_column(heading, overflow="fold")
    for name, entry in record["schemes"].items():
        mode, runs = entry["mode"], entry["arithmetic"]
        table.add_row(
            name,
            f"[{STYLES[mode]}]{mode}[/]",
            *(runs[part] for part in ("weights", "activations", "kv")),
            _kernels(entry),
            _verified(entry["verified"]),
            entry["mode_reason"],
        )
    console.print()
    console.print(table)


def _kernels(entry: Mapping[str, Any]) -> str:
    """Those that ran, or of which one must."""
    ran = (entry["verified"] or {}).get("kernels")
    return ", ".join(ran) if ran else " or ".join(entry["kernels"]) or "–"


def _verified(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "no"
    if entry["outcome"] != "ran":
        return f"[red]{entry['outcome']}[/]: {escape(entry['said'])}"
    said = f"ran, KL {entry['kl']:.3g}"
    if "twin_kl" in entry:
        said += (
            f" (simulated {entry['twin_kl']:.3g}, from one to the other {entry['direct_kl']:.3g})"
        )
    return said


def _machine(hardware: Mapping[str, Any]) -> list[str]:
    found = [
        f"{hardware['cpu']}, {hardware['cores']} cores",
        f"{hardware['memory_gib']} GiB memory",
    ]
    if hardware["gpus"]:
        capability = hardware["cuda_capability"]
        found.append(f"{', '.join(hardware['gpus'])} (compute capability {capability})")
    else:
        found.append("no GPU")
    return [*found, f"{hardware['disk_free_gib']} GiB of disk free"]
