"""Reviews, tickets and messages to sort, the labels named in the prompt."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from qpipe.evaluation.generators._draw import Draft, Template, shots

__all__ = ["TEMPLATES"]

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


_CHINESE_TICKETS: Mapping[str, tuple[str, ...]] = {
    "账单": ("发票{n}被重复扣款了。", "为什么这个月多收了{n}元？", "请退回我付的{n}元。"),
    "物流": ("包裹{n}还没有送到。", "快递{n}送错了地址。", "包裹已经晚了{n}天。"),
    "技术": ("软件一打开就报错{n}。", "更新到版本{n}以后屏幕是黑的。", "打印第{n}页时程序崩溃。"),
    "账户": ("我忘记了密码，用户号是{n}。", "请修改账号{n}的邮箱。", "用户{n}无法登录。"),
}
_ASPECTS: Mapping[str, tuple[str, str]] = {
    "food": ("the food was delicious", "the food was cold and bland"),
    "service": ("the waiters were quick and kind", "the waiters were slow and rude"),
    "price": ("the bill was lower than we feared", "the bill was a shock"),
    "room": ("the room was bright and quiet", "the room was loud and dark"),
    "view": ("the view was a dream", "the view was a wall"),
}
_NOUNS = ("artists", "bakers", "chemists", "dancers", "editors", "farmers", "golfers", "judges")


def _row(
    rng: random.Random,
    texts: Mapping[str, tuple[str, ...]],
    fills: tuple[str, ...] | None,
    examples: list[tuple[str, str]],
    head: str,
    *tags: str,
) -> Draft:
    label = rng.choice(tuple(texts))
    form = rng.choice(texts[label])
    text = form.format(rng.choice(fills)) if fills else form.format(n=rng.randint(2, 90))
    return _labelled(shots(examples, text, head), label, texts, *tags)


def _labelled(prompt: str, label: str, labels: Iterable[str], *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": label,
        "scorer": "choice",
        "choices": list(labels),
        "tags": list(tags),
    }


def _sentiment(rng: random.Random) -> Draft:
    examples = [("A lovely book, I enjoyed it.", "positive"), ("A horrible day.", "negative")]
    return _row(rng, _SENTIMENTS, _GOODS, examples, "Is it positive or negative?", "sentiment")


def _spam(rng: random.Random) -> Draft:
    examples = [("FREE cash!!! Reply now!!!", "spam"), ("Thanks for your letter.", "normal")]
    return _row(rng, _SPAM, None, examples, "Is the message spam or normal?", "spam")


def _question(rng: random.Random) -> Draft:
    examples = [("Where is the lamp?", "question"), ("The book is blue.", "statement")]
    texts = {
        "question": ("Where is the {}?", "Who sold the {}?", "When did the {} arrive?"),
        "statement": ("The {} is here.", "Tom likes the {}.", "The {} came on Monday."),
    }
    return _row(rng, texts, _GOODS, examples, "Is it a question or a statement?", "form")


def _topic(rng: random.Random) -> Draft:
    head = "Topic: sports, food, weather or music?"
    examples = [("The goalkeeper trained hard.", "sports"), ("Cloudy with some fog.", "weather")]
    return _row(rng, _TOPICS, None, examples, head, "topic")


def _ticket(rng: random.Random) -> Draft:
    head = "Department: billing, shipping, technical or account?"
    examples = [("My card was charged too much.", "billing"), ("Delete my profile.", "account")]
    return _row(rng, _TICKETS, None, examples, head, "ticket")


def _ticket_bare(rng: random.Random) -> Draft:
    head = "Sort the ticket into billing, shipping, technical or account."
    return _row(rng, _TICKETS, None, [], head, "ticket")


def _urgency(rng: random.Random) -> Draft:
    return _row(rng, _URGENCY, None, [], "Is the message urgent or routine?", "urgency")


def _mixed(rng: random.Random) -> Draft:
    return _row(rng, _MIXED, _GOODS, [], "Is it positive or negative?", "sentiment")


def _chinese(rng: random.Random) -> Draft:
    examples = [("这本书很好看。", "好评"), ("这双鞋很难看。", "差评")]
    return _row(rng, _CHINESE, _CHINESE_GOODS, examples, "好评还是差评？", "sentiment", "zh")


def _chinese_ticket(rng: random.Random) -> Draft:
    head = "工单属于哪个部门：账单、物流、技术还是账户？"
    return _row(rng, _CHINESE_TICKETS, None, [], head, "ticket", "zh")


def _aspect(rng: random.Random) -> Draft:
    """What is said of one of three aspects, or of a fourth that is left out."""
    labels = ("positive", "negative", "not mentioned")
    label, names = rng.choice(labels), rng.sample(tuple(_ASPECTS), 4)
    said = {name: rng.choice(labels[:2]) for name in names[:3]}
    asked = names[3] if label == labels[2] else rng.choice(names[:3])
    said |= {} if label == labels[2] else {asked: label}
    clauses = [_ASPECTS[name][tone == "negative"] for name, tone in said.items()]
    place = rng.choice(("the inn", "the hotel", "the guest house", "the lodge"))
    text = f"At {place} {clauses[0]}, {clauses[1]}, and {clauses[2]}."
    examples = [
        ("At the cabin the beds were soft, but the water was cold.\nThe water:", "negative"),
        ("At the cabin the beds were soft, but the water was cold.\nThe garden:", "not mentioned"),
    ]
    head = "What does the text say of it: positive, negative or not mentioned?"
    prompt = shots(examples, f"{text}\nThe {asked}:", head)
    return _labelled(prompt, label, labels, "aspect")


def _real_wish(rng: random.Random) -> Draft:
    """A ticket that speaks of one department's matter to rule it out, and wants another's."""
    (_, old), (wanted, new) = (
        (label, rng.choice(_TICKETS[label])) for label in rng.sample(tuple(_TICKETS), 2)
    )
    first, second = old.format(n=rng.randint(2, 90)), new.format(n=rng.randint(2, 90))
    text = rng.choice(
        (
            f"Last week I wrote: '{first}' That is settled, thank you. Today it is this: {second}",
            f"{second} By the way, my message '{first}' needs no answer any more.",
            f"You answered '{first}' and that was fine. But my question was another one: {second}",
        )
    )
    head = "Which department must act now: billing, shipping, technical or account?"
    return _labelled(shots([], text, head), wanted, _TICKETS, "ticket", "distractor")


def _policy(rng: random.Random) -> Draft:
    """Three conditions decide, the first that holds."""
    labels = ("refund", "exchange", "voucher", "refuse")
    label = rng.choice(labels)
    limit, dear = rng.choice((14, 21, 30)), rng.choice((50, 100, 200))
    days = rng.randint(limit + 1, 60) if label == "refuse" else rng.randint(3, limit)
    used = label in ("exchange", "voucher") or (label == "refuse" and rng.random() < 0.5)
    steps = {"exchange": (dear // 5 + 1, 60), "voucher": (4, dear // 5)}.get(label, (4, 60))
    price = 5 * rng.randint(*steps)
    rules = (
        f"Rules: after more than {limit} days we refuse. Within {limit} days, an unused item gets a "
        f"refund; a used one gets an exchange if it cost more than ${dear}, else a voucher."
    )
    state = rng.choice(
        ("I have worn it twice", "I have used it every day")
        if used
        else ("It is still in its sealed box", "I never opened it")
    )
    thing = rng.choice(("watch", "coat", "headset", "drill", "backpack", "tent"))
    text = f"{rules}\nCustomer: I bought the {thing} {days} days ago for ${price}. {state}."
    head = "What do the rules say: refund, exchange, voucher or refuse?"
    return _labelled(shots([], text, head), label, labels, "rules")


def _inference(rng: random.Random) -> Draft:
    """A chain of two statements, and what follows of a third."""
    a, b, c = rng.sample(_NOUNS, 3)
    name = rng.choice(("Kim", "Lou", "Max", "Noor", "Pat", "Sky"))
    premises, claims = rng.choice(
        (
            (
                f"All {a} are {b}. All {b} are {c}.",
                {
                    "follows": f"All {a} are {c}.",
                    "contradicts": f"Some {a} are not {c}.",
                    "open": f"All {c} are {a}.",
                },
            ),
            (
                f"All {a} are {b}. No {b} are {c}.",
                {
                    "follows": f"No {c} are {a}.",
                    "contradicts": f"There are {a}, and all of them are {c}.",
                    "open": f"Some {b} are not {a}.",
                },
            ),
            (
                f"All {a} are {b}. No {c} are {b}. {name} is one of the {c}.",
                {
                    "follows": f"{name} is not one of the {a}.",
                    "contradicts": f"{name} is one of the {a}.",
                    "open": f"{name} knows one of the {a}.",
                },
            ),
            (
                f"Some {a} are {b}. All {b} are {c}.",
                {
                    "follows": f"Some {a} are {c}.",
                    "contradicts": f"No {a} are {c}.",
                    "open": f"All {a} are {c}.",
                },
            ),
        )
    )
    label = rng.choice(tuple(claims))
    examples = [
        ("All cooks are poets. Tom is one of the cooks.\nTom is a poet.", "follows"),
        ("All cooks are poets. Mia is a poet.\nMia is one of the cooks.", "open"),
        ("No cooks are poets. Sam is a poet.\nSam is one of the cooks.", "contradicts"),
    ]
    head = "Does the last sentence follow, does it contradict, or is it open?"
    prompt = shots(examples, f"{premises}\n{claims[label]}", head)
    return _labelled(prompt, label, ("follows", "contradicts", "open"), "inference")


def _chinese_real_wish(rng: random.Random) -> Draft:
    (_, old), (wanted, new) = (
        (label, rng.choice(_CHINESE_TICKETS[label]))
        for label in rng.sample(tuple(_CHINESE_TICKETS), 2)
    )
    first, second = old.format(n=rng.randint(2, 90)), new.format(n=rng.randint(2, 90))
    text = rng.choice(
        (
            f"上周我写过“{first}”，这件事已经解决了，谢谢。今天的问题是：{second}",
            f"{second}另外，之前那条“{first}”不用再处理了。",
        )
    )
    head = "现在应由哪个部门处理：账单、物流、技术还是账户？"
    return _labelled(shots([], text, head), wanted, _CHINESE_TICKETS, "ticket", "distractor", "zh")


TEMPLATES: tuple[Template, ...] = (
    Template("sentiment", 1, _sentiment),
    Template("spam", 1, _spam),
    Template("question", 1, _question),
    Template("topic", 2, _topic),
    Template("ticket", 2, _ticket),
    Template("sentiment-zh", 2, _chinese),
    Template("mixed", 3, _mixed),
    Template("urgency", 3, _urgency),
    Template("ticket-bare", 3, _ticket_bare),
    Template("ticket-zh", 3, _chinese_ticket),
    Template("aspect", 4, _aspect),
    Template("real-wish", 4, _real_wish),
    Template("policy", 4, _policy),
    Template("inference", 4, _inference),
    Template("real-wish-zh", 4, _chinese_real_wish),
)
