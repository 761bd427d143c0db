"""Writes the structured calibration texts: documents of fields and worked arithmetic.

They are checked in; ``python -m qpipe.calibration._structured calib/sources`` writes them anew.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from qpipe.records import write_text

__all__ = ["FILES", "render"]

FIRMS = ["Kestrel Tools", "Bluefen Foods", "Odum Textiles", "Rill & Sons", "Tarn Paper Works"]
GOODS = {"hinge set": 4.20, "linen roll": 31.50, "jar of plums": 3.75, "oak shelf": 58.00,
         "desk lamp": 24.90, "box of nails": 2.60, "ink, black": 7.15}  # fmt: skip
SERVICES = ["catalog", "checkout", "mailer", "search", "thumbnails"]
EVENTS = {"INFO": "request served", "WARN": "queue above half", "ERROR": "upstream timed out"}
SUBJECTS = ["crates", "notebooks", "tickets", "seedlings", "tiles"]

Turn = tuple[str, str]


def render(name: str) -> str:
    """Content of one file of ``FILES``; the same on every run."""
    count, make = FILES[name]
    turns = make(random.Random(name), count)
    rows = (
        {"messages": [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]}
        for ask, answer in turns
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _invoices(draw: random.Random, count: int) -> Iterator[Turn]:
    for _ in range(count):
        lines = [(name, draw.randint(1, 12)) for name in draw.sample(sorted(GOODS), 3)]
        net = round(sum(GOODS[name] * quantity for name, quantity in lines), 2)
        number = f"{draw.choice('ABCR')}{draw.randint(1000, 9999)}"
        seller = draw.choice(FIRMS)
        due = f"2031-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        items = "\n".join(
            f"{quantity} x {name} at {GOODS[name]:.2f} = {quantity * GOODS[name]:.2f}"
            for name, quantity in lines
        )
        ask = (
            "Give seller, invoice, due, items and net as JSON.\n\n"
            f"{seller}\nInvoice {number}\n{items}\nNet {net:.2f} EUR, payable by {due}"
        )
        answer = {"seller": seller, "invoice": number, "due": due,
                  "items": dict(lines), "net": net}  # fmt: skip
        yield ask, json.dumps(answer)


def _logs(draw: random.Random, count: int) -> Iterator[Turn]:
    for _ in range(count):
        minute, entries = draw.randint(0, 40), []
        for _ in range(6):
            minute += draw.randint(1, 3)
            entries.append((minute, draw.choice(SERVICES), draw.choice(sorted(EVENTS))))
        hour = draw.randint(0, 23)
        text = "\n".join(
            f"{hour:02d}:{minute:02d} {service:<10} {level:<5} {EVENTS[level]}"
            for minute, service, level in entries
        )
        errors = [service for _, service, level in entries if level == "ERROR"]
        answer = {"errors": len(errors), "services_with_errors": sorted(set(errors))}
        ask = f"Count the errors and name the services that had them, as JSON.\n\n{text}"
        yield ask, json.dumps(answer)


def _arithmetic(draw: random.Random, count: int) -> Iterator[Turn]:
    for _ in range(count):
        thing, start, rows = draw.choice(SUBJECTS), draw.randint(40, 90), draw.randint(3, 9)
        each, gone = draw.randint(4, 15), draw.randint(5, 35)
        added = rows * each
        ask = (
            f"A store room has {start} {thing}. {rows} carts bring {each} {thing} each, "
            f"and {gone} {thing} are sent out. How many are left?"
        )
        yield (
            ask,
            (
                f"The carts bring {rows} * {each} = {added}. Then there are {start} + {added} = "
                f"{start + added}. After {gone} are sent out, {start + added} - {gone} = "
                f"{start + added - gone} are left. The answer is {start + added - gone}."
            ),
        )


FILES: dict[str, tuple[int, Callable[[random.Random, int], Iterator[Turn]]]] = {
    "invoices.jsonl": (20, _invoices),
    "logs.jsonl": (14, _logs),
    "arithmetic.jsonl": (20, _arithmetic),
}


if __name__ == "__main__":
    for file_name in FILES:
        write_text(Path(sys.argv[1]) / file_name, render(file_name))
