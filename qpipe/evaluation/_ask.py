"""Asks a plan's cells and scores them. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import hash_args
from lm_eval.evaluator import evaluate

from qpipe.evaluation._answers import Answer, LogProb
from qpipe.evaluation._cells import Result
from qpipe.evaluation._model_code import may_run_code
from qpipe.evaluation._plan import Cell
from qpipe.evaluation._questions import field_table, question_rows
from qpipe.evaluation._served import GENERATION, ServedModel, answered, is_sampled
from qpipe.serving import Tokens

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks.manager import TaskDict

__all__ = ["Questions"]


class Questions:
    """The questions of ``cells``, for one model.

    Args:
        cells: What is asked.
        model: Who is asked.
        answers: Files of the answers that have come, for rendered chats and for others.
        seed: Of few-shot examples.
    """

    def __init__(
        self, cells: Sequence[Cell], model: ServedModel, answers: Mapping[bool, Path], seed: int
    ) -> None:
        self._cells = cells
        self._loaded = {cell.task: cell.load() for cell in cells}
        self._made: set[str] = set()  # tasks whose requests are
        self._model = model
        self._answers = answers
        self._seed = seed

    def ask(self) -> None:
        """Ask what is generated, of all cells together: ``score`` finds the answers.

        Chats and other prompts are two streams; sampled answers are left to ``score``.

        Raises:
            EngineError: a request failed.
            InvalidMeasurement: prompts cannot be trusted.
        """
        for chat, path in self._answers.items():
            requests = {
                # Equal ones are one: they have one answer.
                hash_args(GENERATION, request.args): request
                for cell in self._cells
                if cell.chat == chat
                for request in self._generated(cell)
            }
            if requests:
                with answered(self._model, path, chat) as lm:
                    lm.generate_until(list(requests.values()))

    def score(self, cell: Cell) -> Result:
        """A cell's scores, once; what ``ask`` did not ask is asked.

        Raises:
            EngineError: a request failed.
            InvalidMeasurement: prompts or scores cannot be trusted.
        """
        loaded = self._loaded.pop(cell.task)
        tasks = loaded["tasks"].values()
        made = cell.task in self._made
        if not made:
            self._seed_all(loaded)
        with answered(self._model, self._answers[cell.chat], cell.chat) as lm:
            with self._model.naming(cell.task), _keeping(tasks if made else []):
                # `simple_evaluate` around this asks git for commits, noise outside a checkout.
                outcome = evaluate(
                    lm=lm,
                    task_dict=loaded,
                    limit=cell.limit,
                    apply_chat_template=cell.chat,
                    fewshot_as_multiturn=cell.chat,
                    log_samples=True,
                    bootstrap_iters=0,
                    confirm_run_unsafe_code=may_run_code(),
                )
            answers: dict[str, Answer | LogProb] = {}
            for task in tasks:
                for request in task.instances:
                    answers |= self._model.answers_to(request)
                task._instances = None  # prompts may fill much memory, and the plan keeps tasks
        samples, metric = question_rows(outcome["samples"], cell)
        record = {
            "suite": cell.suite,
            "category": cell.category,
            "n": len(samples),
            "metric": metric,
            "unit": cell.unit,
            "score": float(samples["score"].mean()),
            "empty": int(samples["empty"].sum()),
            # lm-eval's own figure: a perplexity where scores are log-likelihoods; a tag has none.
            "value": _figure(outcome["results"], cell.task, metric),
            "data_hash": cell.data_hash,
            "fields": field_table(outcome["samples"], cell),
            "exercises": _exercises(answers.values()),
            "bos": {"ids": list(self._model.bos.ids), "share": _bos_share(answers.values())},
        }
        return Result(record, samples)

    def _generated(self, cell: Cell) -> Iterable[Instance]:
        """The requests that ``score`` will make, which are generated and not sampled."""
        loaded = self._loaded[cell.task]
        tasks = loaded["tasks"].values()
        if all(task.OUTPUT_TYPE != GENERATION for task in tasks):
            return
        self._seed_all(loaded)
        self._made.add(cell.task)
        template = self._model.apply_chat_template if cell.chat else None
        for task in tasks:
            task.build_all_requests(
                limit=cell.limit,
                rank=self._model.rank,
                world_size=self._model.world_size,
                apply_chat_template=cell.chat,
                fewshot_as_multiturn=cell.chat,
                chat_template=template,
                tokenizer_name=self._model.tokenizer_name if cell.chat else "",
            )
            for request in task.instances:
                if request.request_type == GENERATION and not is_sampled(request):
                    yield request

    def _seed_all(self, loaded: TaskDict) -> None:
        random.seed(self._seed)
        task: ConfigurableTask
        for task in loaded["tasks"].values():
            if task.config.num_fewshot is None:
                task.set_config("num_fewshot", 0)
            task.set_fewshot_seed(self._seed)


@contextmanager
def _keeping(tasks: Collection[ConfigurableTask]) -> Iterator[None]:
    """lm-eval does not make the requests of ``tasks`` anew: they might differ."""
    for task in tasks:
        task.build_all_requests = lambda **_: None
    try:
        yield
    finally:
        for task in tasks:
            del task.build_all_requests


def _figure(results: dict[str, dict[str, Any]], task: str, metric: str) -> float | None:
    found = results.get(task, {}).get(metric)
    return None if found is None else float(found)


def _exercises(answers: Collection[Answer | LogProb]) -> dict[str, int]:
    """What the engine did for these answers, as it said with each."""
    each = [answer.usage for answer in answers]
    cached = sum(usage.cached_tokens for usage in each)
    return asdict(
        Tokens(
            prefill_tokens=sum(usage.prompt_tokens for usage in each) - cached,
            cached_tokens=cached,
            decode_tokens=sum(usage.completion_tokens for usage in each) - len(each),
            requests=len(each),
        )
    )


def _bos_share(answers: Collection[Answer | LogProb]) -> float | None:
    """Share of the requests whose prompt BOS began; ``None`` where no prompt begins a text."""
    begun = [answer.bos for answer in answers if answer.bos is not None]
    return sum(begun) / len(begun) if begun else None
