"""Fields out of records, mails, tables and sentences."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from qpipe.evaluation.generators._draw import Draft, Template, pick, shots

__all__ = ["TEMPLATES"]

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
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_CHINESE_NAMES = ("王芳", "李伟", "张敏", "刘洋", "陈静", "杨帆")
_CHINESE_CITIES = ("北京", "上海", "广州", "成都", "武汉", "西安")
_CHINESE_GOODS = ("椅子", "台灯", "杯子", "键盘", "雨伞", "书架")


def _text(prompt: str, reference: str, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "contains",
        "tags": list(tags),
        "max_tokens": 16,
        "stop": ["\n"],
    }


def _fields(prompt: str, reference: Mapping[str, object], *tags: str) -> Draft:
    size = len(reference)
    return {
        "prompt": prompt,
        "reference": dict(reference),
        "scorer": "json_fields",
        "tags": ["json", *tags],
        "max_tokens": 32 if size <= 3 else 40 if size == 4 else 96,
        "stop": ["\n"],
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _date_of(rng: random.Random) -> str:
    return f"{rng.randint(1, 28)} {rng.choice(_MONTHS)}"


def _copy_field(rng: random.Random) -> Draft:
    record = {"Name": rng.choice(_NAMES), "City": rng.choice(_CITIES), "Job": rng.choice(_JOBS)}
    asked = rng.choice(tuple(record))
    shown = "; ".join(f"{key}: {value}" for key, value in record.items())
    examples = [
        ("Name: Tom; City: Tokyo; Job: tailor\nWhat is the City?", "Tokyo"),
        ("Name: Mia; City: Delhi; Job: writer\nWhat is the Name?", "Mia"),
    ]
    prompt = shots(examples, f"{shown}\nWhat is the {asked}?")
    return _text(prompt, record[asked], "record")


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
    return _text(shots(examples, question), address, "mail")


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
    return _text(shots(examples, question), city, "sentence")


def _total(rng: random.Random) -> Draft:
    number = rng.randint(1000, 9999)
    total = rng.randint(1000, 99999) / 100
    examples = [("Invoice 5521 of 3 July, total 61.20 EUR.\nWhat is the total?", "61.20")]
    question = f"Invoice {number} of {_date_of(rng)}, total {total:.2f} EUR."
    draft = _text(shots(examples, f"{question}\nWhat is the total?"), "", "invoice")
    return {**draft, "reference": total, "scorer": "numeric"}


def _date(rng: random.Random) -> Draft:
    name, date, city = rng.choice(_NAMES), _date_of(rng), rng.choice(_CITIES)
    examples = [("Tom pays on 3 July and leaves.\nWhen?", "3 July")]
    question = f"{name} will arrive in {city} on {date} by train.\nWhen?"
    return _text(shots(examples, question), date, "date")


def _order_json(rng: random.Random) -> Draft:
    name, goods, count = rng.choice(_NAMES), rng.choice(_GOODS), rng.randint(2, 30)
    examples = [
        ("Tom orders 4 hats.", '{"name": "Tom", "item": "hats", "count": 4}'),
        ("Mia orders 11 keys.", '{"name": "Mia", "item": "keys", "count": 11}'),
    ]
    prompt = shots(examples, f"{name} orders {count} {goods}.", "Write the order as JSON.")
    return _fields(prompt, {"name": name, "item": goods, "count": count}, "order")


def _person_json(rng: random.Random) -> Draft:
    name, city, age = rng.choice(_NAMES), rng.choice(_CITIES), rng.randint(20, 70)
    examples = [
        ("Tom, aged 31, comes from Tokyo.", '{"name": "Tom", "age": 31, "city": "Tokyo"}'),
    ]
    prompt = shots(examples, f"{name}, aged {age}, comes from {city}.", "Write the person as JSON.")
    return _fields(prompt, {"name": name, "age": age, "city": city}, "person")


def _letter_json(rng: random.Random) -> Draft:
    name, city, goods = rng.choice(_NAMES), rng.choice(_CITIES), rng.choice(_GOODS)
    count, date = rng.randint(2, 30), _date_of(rng)
    example = {"from": "Tom", "item": "hats", "count": 9, "date": "3 July"}
    examples = [
        ("Dear team, our 9 hats came broken to Tokyo on 3 July. Regards, Tom", _json(example))
    ]
    question = f"Dear team, we got only some of the {count} {goods} due in {city} on {date}. "
    question += f"Regards, {name}"
    reference = {"from": name, "item": goods, "count": count, "date": date}
    return _fields(shots(examples, question, "Write the complaint as JSON."), reference, "letter")


def _table(rng: random.Random) -> Draft:
    """One cell of a table, found by another column than the first."""
    names, cities, goods = pick(rng, _NAMES, 5), pick(rng, _CITIES, 5), pick(rng, _GOODS, 5)
    rows = list(zip(names, goods, cities, rng.sample(range(2, 99), 5), strict=True))
    name, _, city, count = rng.choice(rows)
    asked, answer = rng.choice((("Which name", name), ("Which count", str(count))))
    example = "name | item | city | count\nTom | hats | Tokyo | 4\nMia | keys | Delhi | 7\n"
    shown = "\n".join(" | ".join(map(str, row)) for row in rows)
    examples = [
        (f"{example}Which name goes with Delhi?", "Mia"),
        (f"{example}Which count goes with Tokyo?", "4"),
    ]
    question = f"name | item | city | count\n{shown}\n{asked} goes with {city}?"
    return _text(shots(examples, question), answer, "table")


def _log_json(rng: random.Random) -> Draft:
    user, host = rng.choice(_NAMES).lower(), f"web-{rng.randint(1, 40)}"
    code, wait = rng.choice((403, 404, 409, 500, 502, 503)), rng.randint(3, 900)
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    examples = [
        (
            "07:15 host=db-3 level=WARN user=tom status=401 took 88ms",
            '{"user": "tom", "host": "db-3", "status": 401, "ms": 88}',
        )
    ]
    question = f"{time} host={host} level=ERROR user={user} status={code} took {wait}ms"
    reference = {"user": user, "host": host, "status": code, "ms": wait}
    return _fields(shots(examples, question, "Write the log line as JSON."), reference, "log")


def _corrected_json(rng: random.Random) -> Draft:
    """An order that is changed while it is written: the last word counts."""
    name, city, (goods, other) = rng.choice(_NAMES), rng.choice(_CITIES), pick(rng, _GOODS, 2)
    first, count, cheap = rng.sample(range(2, 60), 3)
    (day, late), month = rng.sample(range(1, 29), 2), rng.choice(_MONTHS)
    example = {"from": "Tom", "item": "hats", "count": 7, "city": "Tokyo", "date": "9 July"}
    examples = [
        (
            "Hello, please send 5 hats to Tokyo by 3 July. Sorry, make it 7, and the 9th is early "
            "enough. Yours, Tom",
            _json(example),
        )
    ]
    question = (
        f"Hello, last year you sent us {cheap} {other}. Now we need {first} {goods} in {city} by "
        f"{day} {month}. No, wait: my colleague says {count}, and the {_ordinal(late)} will do. "
        f"Yours, {name}"
    )
    reference = {
        "from": name,
        "item": goods,
        "count": count,
        "city": city,
        "date": f"{late} {month}",
    }
    prompt = shots(examples, question, "Write the final order as JSON.")
    return _fields(prompt, reference, "letter", "correction")


def _ordinal(day: int) -> str:
    ending = "th" if 10 <= day <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _invoice_json(rng: random.Random) -> Draft:
    """Six fields, the date rewritten and the total summed."""
    name, city, (a, b) = rng.choice(_NAMES), rng.choice(_CITIES), pick(rng, _GOODS, 2)
    (x, y), number = rng.sample(range(12, 98), 2), rng.randint(1000, 9999)
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(2021, 2029)
    example = {
        "invoice": 5521,
        "date": "2024-07-03",
        "customer": "Tom",
        "city": "Tokyo",
        "items": 2,
        "total": 52,
    }
    examples = [
        (
            "Invoice 5521, issued on 3 July 2024 to Tom in Tokyo: hats for 40 EUR, keys for 12 EUR.",
            _json(example),
        )
    ]
    question = (
        f"Invoice {number}, issued on {day} {_MONTHS[month - 1]} {year} to {name} in {city}: "
        f"{a} for {x} EUR, {b} for {y} EUR."
    )
    reference = {
        "invoice": number,
        "date": f"{year}-{month:02d}-{day:02d}",
        "customer": name,
        "city": city,
        "items": 2,
        "total": x + y,
    }
    head = "Write the invoice as JSON, with the number of items and the total in EUR."
    return _fields(shots(examples, question, head), reference, "invoice")


def _roles_json(rng: random.Random) -> Draft:
    """Four people in one sentence order, asked for in another."""
    buyer, seller, driver, witness = pick(rng, _NAMES, 4)
    goods, (start, end) = rng.choice(_GOODS), pick(rng, _CITIES, 2)
    example = {"seller": "Mia", "buyer": "Tom", "driver": "Sam", "from": "Delhi", "to": "Tokyo"}
    examples = [
        (
            "Tom, who had seen them at Lea's, bought the hats that Sam brought from Delhi to Tokyo "
            "for Mia, their owner until then.",
            _json(example),
        )
    ]
    question = (
        f"{buyer}, to whom {witness} had praised them, took over the {goods} of {seller}; "
        f"{driver} fetched them from {start}, and they stand in {end} now."
    )
    reference = {"seller": seller, "buyer": buyer, "driver": driver, "from": start, "to": end}
    return _fields(shots(examples, question, "Write the sale as JSON."), reference, "roles")


def _chinese_name(rng: random.Random) -> Draft:
    name, city = rng.choice(_CHINESE_NAMES), rng.choice(_CHINESE_CITIES)
    asked, answer = rng.choice((("姓名是什么？", name), ("城市是哪里？", city)))
    examples = [
        ("姓名：赵强；城市：天津\n姓名是什么？", "赵强"),
        ("姓名：孙丽；城市：南京\n城市是哪里？", "南京"),
    ]
    question = f"姓名：{name}；城市：{city}\n{asked}"
    return _text(shots(examples, question), answer, "record", "zh")


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
    return _text(shots(examples, question), answer, "record", "zh")


def _chinese_json(rng: random.Random) -> Draft:
    name, city, goods = (
        rng.choice(_CHINESE_NAMES),
        rng.choice(_CHINESE_CITIES),
        rng.choice(_CHINESE_GOODS),
    )
    count = rng.randint(2, 60)
    examples = [
        ("天津的赵强买了4个花瓶。", '{"客户": "赵强", "城市": "天津", "商品": "花瓶", "数量": 4}')
    ]
    question = f"{city}的{name}买了{count}个{goods}。"
    reference = {"客户": name, "城市": city, "商品": goods, "数量": count}
    return _fields(shots(examples, question, "把订单写成JSON。"), reference, "order", "zh")


def _chinese_corrected(rng: random.Random) -> Draft:
    name, (start, city) = rng.choice(_CHINESE_NAMES), pick(rng, _CHINESE_CITIES, 2)
    (goods, other), (first, count, old) = (
        pick(rng, _CHINESE_GOODS, 2),
        rng.sample(range(2, 60), 3),
    )
    example = {"客户": "赵强", "商品": "花瓶", "数量": 6, "城市": "南京"}
    examples = [
        (
            "您好，我是赵强，原来订了4个花瓶送到天津，现在改成6个，送到南京。",
            _json(example),
        )
    ]
    question = (
        f"您好，我是{name}。上个月买过{old}个{other}。这次原来订了{first}个{goods}送到{start}，"
        f"后来同事说要{count}个，地址也改成{city}了。"
    )
    reference = {"客户": name, "商品": goods, "数量": count, "城市": city}
    prompt = shots(examples, question, "把最后的订单写成JSON。")
    return _fields(prompt, reference, "letter", "correction", "zh")


TEMPLATES: tuple[Template, ...] = (
    Template("copy-field", 1, _copy_field),
    Template("mail-address", 1, _mail_address),
    Template("sentence-city", 1, _sentence_city),
    Template("copy-field-zh", 2, _chinese_name),
    Template("order-json", 2, _order_json),
    Template("total", 2, _total),
    Template("date", 2, _date),
    Template("order-zh", 2, _chinese_order),
    Template("person-json", 2, _person_json),
    Template("letter-json", 3, _letter_json),
    Template("table", 3, _table),
    Template("log-json", 3, _log_json),
    Template("order-json-zh", 3, _chinese_json),
    Template("corrected-json", 4, _corrected_json),
    Template("invoice-json", 4, _invoice_json),
    Template("roles-json", 4, _roles_json),
    Template("corrected-json-zh", 4, _chinese_corrected),
)
