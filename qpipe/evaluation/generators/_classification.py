"""Reviews, tickets and messages to sort, the labels named in the prompt."""

from __future__ import annotations

import random
from collections.abc import Mapping

from qpipe.evaluation.generators._draw import Draft, Maker, shots

__all__ = ["MAKERS"]

_GOODS = (
    "camera",
    "chair",
    "film",
    "game",
    "hotel",
    "lamp",
    "meal",
    "phone",
    "radio",
    "train ride",
)
_SENTIMENTS: Mapping[str, tuple[str, ...]] = {
    "positive": (
        "I love this {}, it is wonderful!",
        "What a great {}. I am very happy.",
        "The {} is excellent, thank you!",
        "Best {} ever, simply perfect.",
    ),
    "negative": (
        "I hate this {}, it is terrible!",
        "What a bad {}. I am very angry.",
        "The {} is awful, a waste of money!",
        "Worst {} ever, simply useless.",
    ),
}
_MIXED: Mapping[str, tuple[str, ...]] = {
    "positive": (
        "I feared the {} would be bad, but I was wrong.",
        "The {} is not cheap, yet I would buy it again.",
        "Nothing about the {} disappointed me.",
    ),
    "negative": (
        "I hoped the {} would be good, but it was not.",
        "The {} looks nice, yet I sent it back.",
        "Nothing about the {} pleased me.",
    ),
}
_SPAM: Mapping[str, tuple[str, ...]] = {
    "spam": (
        "WIN ${n} NOW!!! Click here to claim your free prize!",
        "Congratulations, you won {n} dollars! Send your card number!",
        "Cheap pills, {n}% off, buy now, limited offer!!!",
    ),
    "normal": (
        "Hi, the meeting is moved to room {n}. See you there.",
        "Can you send me page {n} of the report, please?",
        "Dinner is at my place, house number {n}. Mum says hello.",
    ),
}
_TOPICS: Mapping[str, tuple[str, ...]] = {
    "sports": (
        "The team scored {n} goals and won the match.",
        "The runner finished the race in {n} minutes.",
        "The coach named {n} players for the final.",
    ),
    "food": (
        "Add {n} grams of sugar and bake the cake.",
        "The cook fried {n} eggs with onions.",
        "The soup needs {n} minutes and some salt.",
    ),
    "weather": (
        "Heavy rain and wind of {n} km/h tomorrow.",
        "Sunny, with a high of {n} degrees.",
        "Snow fell for {n} hours in the north.",
    ),
    "music": (
        "The band played {n} songs on stage.",
        "The singer sold {n} thousand albums.",
        "The orchestra has {n} violins.",
    ),
}
_TICKETS: Mapping[str, tuple[str, ...]] = {
    "billing": (
        "I was charged ${n} twice on my invoice.",
        "Please refund the ${n} I paid.",
        "Why is my bill ${n} higher this month?",
    ),
    "shipping": (
        "My parcel is {n} days late, where is it?",
        "Box {n} was delivered to the wrong address.",
        "Can the courier bring parcel {n} on Friday?",
    ),
    "technical": (
        "The app crashes with error {n} when I start it.",
        "After update {n} the screen stays black.",
        "The software shows bug {n} when I print.",
    ),
    "account": (
        "I forgot my password, my user number is {n}.",
        "Please change the email of login {n}.",
        "User {n} cannot log in to the profile.",
    ),
}
_URGENCY: Mapping[str, tuple[str, ...]] = {
    "urgent": (
        "Server {n} is down and all customers are affected!",
        "Fire alarm in hall {n}, come at once!",
        "Payment of all {n} clients fails right now!",
    ),
    "routine": (
        "When you have time, please tidy shelf {n}.",
        "Some day we could repaint room {n}.",
        "No hurry: please read note {n} next week.",
    ),
}
_CHINESE_GOODS = ("手机", "电影", "酒店", "相机", "椅子", "饭菜")
_CHINESE: Mapping[str, tuple[str, ...]] = {
    "好评": ("这个{}非常好，我很喜欢。", "{}太棒了，下次还买。"),
    "差评": ("这个{}非常差，我很生气。", "{}太糟糕了，再也不买。"),
}


def _row(
    rng: random.Random,
    texts: Mapping[str, tuple[str, ...]],
    fills: tuple[str, ...] | None,
    examples: list[tuple[str, str]],
    head: str,
    level: int,
    *tags: str,
) -> Draft:
    label = rng.choice(tuple(texts))
    form = rng.choice(texts[label])
    text = form.format(rng.choice(fills)) if fills else form.format(n=rng.randint(2, 90))
    return {
        "prompt": shots(examples, text, head),
        "reference": label,
        "scorer": "choice",
        "choices": list(texts),
        "tags": list(tags),
        "level": level,
    }


def _sentiment(rng: random.Random) -> Draft:
    examples = [("A lovely book, I enjoyed it.", "positive"), ("A horrible day.", "negative")]
    return _row(rng, _SENTIMENTS, _GOODS, examples, "Is it positive or negative?", 1, "sentiment")


def _spam(rng: random.Random) -> Draft:
    examples = [("FREE cash!!! Reply now!!!", "spam"), ("Thanks for your letter.", "normal")]
    return _row(rng, _SPAM, None, examples, "Is the message spam or normal?", 1, "spam")


def _topic(rng: random.Random) -> Draft:
    head = "Topic: sports, food, weather or music?"
    examples = [("The goalkeeper trained hard.", "sports"), ("Cloudy with some fog.", "weather")]
    return _row(rng, _TOPICS, None, examples, head, 2, "topic")


def _ticket(rng: random.Random) -> Draft:
    head = "Department: billing, shipping, technical or account?"
    examples = [("My card was charged too much.", "billing"), ("Delete my profile.", "account")]
    return _row(rng, _TICKETS, None, examples, head, 2, "ticket")


def _ticket_bare(rng: random.Random) -> Draft:
    head = "Sort the ticket into billing, shipping, technical or account."
    return _row(rng, _TICKETS, None, [], head, 3, "ticket")


def _urgency(rng: random.Random) -> Draft:
    head = "Is the message urgent or routine?"
    return _row(rng, _URGENCY, None, [], head, 2, "urgency")


def _mixed(rng: random.Random) -> Draft:
    head = "Is it positive or negative?"
    return _row(rng, _MIXED, _GOODS, [], head, 3, "sentiment")


def _chinese(rng: random.Random) -> Draft:
    examples = [("这本书很好看。", "好评"), ("这双鞋很难看。", "差评")]
    return _row(rng, _CHINESE, _CHINESE_GOODS, examples, "好评还是差评？", 2, "sentiment", "zh")


MAKERS: tuple[Maker, ...] = (
    _sentiment,
    _topic,
    _spam,
    _ticket,
    _mixed,
    _urgency,
    _chinese,
    _ticket_bare,
)
