"""Business rows as lm-eval tasks. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from qpipe.evaluation._rows import Row
from qpipe.evaluation._scorers import Scorer, score

__all__ = ["business_task", "likeliest"]


class BusinessTask(ConfigurableTask):  # type: ignore[misc]
    """Business rows as one lm-eval task; generation and choice rows may be mixed."""

    rows: Mapping[str, Row]
    """By the text that stands for the row in lm-eval's documents."""

    def fewshot_context(
        self,
        doc: dict[str, str],
        num_fewshot: int,
        apply_chat_template: bool = False,
        chat_template: Callable[..., str] | None = None,
        **_: Any,
    ) -> str:
        """The row's prompt, through the chat template where the suite says so."""
        row = self.rows[doc["row"]]
        if apply_chat_template and chat_template:
            return chat_template(row.conversation)
        return row.text

    def construct_requests(self, doc: dict[str, str], ctx: str, **kwargs: Any) -> list[Instance]:
        """One generation, or one likelihood a choice."""
        row = self.rows[doc["row"]]
        arguments: list[tuple[str, Any]]
        chat, _ = kwargs.pop("apply_chat_template", False), kwargs.pop("chat_template", None)
        if row.choices is not None:
            # A rendered chat ends in white space: the answer follows without a space.
            space = "" if chat or ctx[-1:].isspace() else " "
            arguments = [(ctx, f"{space}{choice}") for choice in row.choices]
            kind = "loglikelihood"
        else:
            settings = self.config.generation_kwargs
            generation = {
                **settings,
                "max_gen_toks": row.max_tokens or settings["max_gen_toks"],
                "until": list(row.stop),
            }
            arguments = [(ctx, generation)]
            kind = "generate_until"
        return [
            Instance(request_type=kind, doc=doc, arguments=argument, idx=index, **kwargs)
            for index, argument in enumerate(arguments)
        ]


def business_task(
    name: str, rows: Sequence[Row], max_tokens: int, scorers: Mapping[str, Scorer]
) -> BusinessTask:
    """The lm-eval task ``name`` over ``rows``, judged by ``scorers``."""
    by_text = {row.model_dump_json(exclude_none=True): row for row in rows}

    def process_results(doc: dict[str, str], results: list[Any]) -> dict[str, float]:
        row = by_text[doc["row"]]
        answer = results[0]
        if row.choices is not None:
            answer = likeliest([value for value, _ in results], row.choices)
        return {"score": score(row, answer, scorers)}

    task = BusinessTask(
        config={
            "task": name,
            "custom_dataset": lambda **_: {
                "test": datasets.Dataset.from_list([{"row": text} for text in by_text])
            },
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": lambda doc: by_text[doc["row"]].text,
            "doc_to_target": lambda doc: by_text[doc["row"]].target,
            "generation_kwargs": {
                "max_gen_toks": max_tokens,
                "temperature": 0.0,
                "do_sample": False,
                "until": [],
            },
            "process_results": process_results,
            "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": True}],
            "num_fewshot": 0,
        }
    )
    task.rows = by_text
    return task


def likeliest(log_likelihoods: Iterable[float], choices: Sequence[str]) -> str:
    """The choice likeliest by byte, so that long labels stand a chance."""
    pairs = zip(log_likelihoods, choices, strict=True)
    return max(pairs, key=lambda pair: pair[0] / len(pair[1].encode()))[1]
