"""Fields out of records, mails and sentences."""

from __future__ import annotations

import json
import random

from qpipe.evaluation.generators._draw import Draft, Maker, shots

__all__ = ["MAKERS"]

_NAMES = ("Anna", "Bruno", "Clara", "Dieter", "Elena", "Felix", "Greta", "Hanna", "Ivan", "Julia")
_CITIES = (
    "Berlin",
    "Cairo",
    "Dublin",
    "Lagos",
    "Lima",
    "Madrid",
    "Nairobi",
    "Oslo",
    "Paris",
    "Rome",
)
_JOBS = (
    "baker",
    "cook",
    "doctor",
    "driver",
    "farmer",
    "nurse",
    "painter",
    "pilot",
    "singer",
    "teacher",
)
_GOODS = ("chairs", "desks", "lamps", "mugs", "pens", "phones", "screens", "shelves")
_MONTHS = ("January", "March", "April", "May", "June", "August", "October", "December")
_CHINESE_NAMES = ("王芳", "李伟", "张敏", "刘洋", "陈静", "杨帆")
_CHINESE_CITIES = ("北京", "上海", "广州", "成都", "武汉", "西安")


def _text(prompt: str, reference: str, level: int, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "contains",
        "tags": list(tags),
        "level": level,
        "max_tokens": 16,
        "stop": ["\n"],
    }


def _fields(prompt: str, reference: dict[str, object], level: int, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "json_fields",
        "tags": ["json", *tags],
        "level": level,
        "max_tokens": 32,
        "stop": ["\n"],
    }


def _copy_field(rng: random.Random) -> Draft:
    record = {"Name": rng.choice(_NAMES), "City": rng.choice(_CITIES), "Job": rng.choice(_JOBS)}
    asked = rng.choice(tuple(record))
    shown = "; ".join(f"{key}: {value}" for key, value in record.items())
    examples = [
        ("Name: Tom; City: Tokyo; Job: tailor\nWhat is the City?", "Tokyo"),
        ("Name: Mia; City: Delhi; Job: writer\nWhat is the Name?", "Mia"),
    ]
    prompt = shots(examples, f"{shown}\nWhat is the {asked}?")
    return _text(prompt, record[asked], 1, "record")


def _mail_address(rng: random.Random) -> Draft:
    name, domain = rng.choice(_NAMES), rng.choice(("example.com", "example.org", "example.net"))
    address = f"{name.lower()}@{domain}"
    examples = [
        (
            "Please write to Tom at tom@example.org before noon.\nWhat is the email?",
            "tom@example.org",
        )
    ]
    question = f"Please send the files to {name} at {address} today.\nWhat is the email?"
    return _text(shots(examples, question), address, 1, "mail")


def _sentence_city(rng: random.Random) -> Draft:
    name, city, job = rng.choice(_NAMES), rng.choice(_CITIES), rng.choice(_JOBS)
    examples = [
        ("Tom is a tailor who lives in Tokyo.\nWhich city?", "Tokyo"),
        ("Mia works in Delhi as a writer.\nWhich city?", "Delhi"),
    ]
    form = rng.choice(
        ("{name} works in {city} as a {job}.", "{name} is a {job} who lives in {city}.")
    )
    question = form.format(name=name, city=city, job=job) + "\nWhich city?"
    return _text(shots(examples, question), city, 1, "sentence")


def _total(rng: random.Random) -> Draft:
    number, day = rng.randint(1000, 9999), rng.randint(1, 28)
    total = rng.randint(1000, 99999) / 100
    examples = [("Invoice 5521 of 3 July, total 61.20 EUR.\nWhat is the total?", "61.20")]
    question = f"Invoice {number} of {day} {rng.choice(_MONTHS)}, total {total:.2f} EUR."
    draft = _text(shots(examples, f"{question}\nWhat is the total?"), "", 2, "invoice")
    return {**draft, "reference": total, "scorer": "numeric"}


def _date(rng: random.Random) -> Draft:
    name, day, month = rng.choice(_NAMES), rng.randint(1, 28), rng.choice(_MONTHS)
    examples = [("Tom pays on 3 July and leaves.\nWhen?", "3 July")]
    city = rng.choice(_CITIES)
    question = f"{name} will arrive in {city} on {day} {month} by train.\nWhen?"
    return _text(shots(examples, question), f"{day} {month}", 2, "date")


def _order_json(rng: random.Random) -> Draft:
    name, goods, count = rng.choice(_NAMES), rng.choice(_GOODS), rng.randint(2, 30)
    examples = [
        ("Tom orders 4 hats.", '{"name": "Tom", "item": "hats", "count": 4}'),
        ("Mia orders 11 keys.", '{"name": "Mia", "item": "keys", "count": 11}'),
    ]
    prompt = shots(examples, f"{name} orders {count} {goods}.", "Write the order as JSON.")
    return _fields(prompt, {"name": name, "item": goods, "count": count}, 2, "order")


def _person_json(rng: random.Random) -> Draft:
    name, city, age = rng.choice(_NAMES), rng.choice(_CITIES), rng.randint(20, 70)
    examples = [
        ("Tom, aged 31, comes from Tokyo.", '{"name": "Tom", "age": 31, "city": "Tokyo"}'),
    ]
    prompt = shots(examples, f"{name}, aged {age}, comes from {city}.", "Write the person as JSON.")
    return _fields(prompt, {"name": name, "age": age, "city": city}, 2, "person")


def _letter_json(rng: random.Random) -> Draft:
    name, city, goods = rng.choice(_NAMES), rng.choice(_CITIES), rng.choice(_GOODS)
    count, day, month = rng.randint(2, 30), rng.randint(1, 28), rng.choice(_MONTHS)
    example = {"from": "Tom", "item": "hats", "count": 9, "date": "3 July"}
    examples = [
        (
            "Dear team, our 9 hats came broken to Tokyo on 3 July. Regards, Tom",
            json.dumps(example),
        )
    ]
    question = (
        f"Dear team, we got only some of the {count} {goods} due in {city} on {day} {month}. "
    )
    question += f"Regards, {name}"
    reference = {"from": name, "item": goods, "count": count, "date": f"{day} {month}"}
    draft = _fields(
        shots(examples, question, "Write the complaint as JSON."), reference, 3, "letter"
    )
    return {**draft, "max_tokens": 40}


def _chinese_order(rng: random.Random) -> Draft:
    name, city, number = (
        rng.choice(_CHINESE_NAMES),
        rng.choice(_CHINESE_CITIES),
        rng.randint(100, 999),
    )
    asked, answer = rng.choice((("订单号是什么？", f"A{number}"), ("城市是哪里？", city)))
    examples = [
        ("订单号：B207；客户：赵强；城市：天津\n订单号是什么？", "B207"),
        ("订单号：B514；客户：孙丽；城市：南京\n城市是哪里？", "南京"),
    ]
    question = f"订单号：A{number}；客户：{name}；城市：{city}\n{asked}"
    return _text(shots(examples, question), answer, 2, "record", "zh")


MAKERS: tuple[Maker, ...] = (
    _copy_field,
    _order_json,
    _mail_address,
    _total,
    _sentence_city,
    _date,
    _chinese_order,
    _person_json,
    _letter_json,
)
