"""Whether a saved checkpoint still speaks, asked of the files before a server is started."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch
from _protocol import Refusal, progress
from _verify import ERROR_LIMITS, TooFar, Unsound, check_weights, verify
from _weights import Checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = (
    "The library opens at nine. Anyone may borrow five books for three weeks; a card costs nothing."
    " Question: how many books may a reader take home at once? Answer:"
)
KL_LIMIT = 3.0
"""Nats a token to the unquantized model; beyond it is noise (log of the vocabulary is 10)."""
NEW_TOKENS = 8
MEND = "look at the worker's log; try more calibration rows or another scheme"
UNKNOWN = "qpipe cannot quantize or check models of this architecture yet; take another model"


class Revived:
    """A checkpoint's dequantized weights in the unquantized model; activations stay unrounded."""

    def __init__(
        self, checkpoint: Checkpoint, base: Checkpoint, dtype: torch.dtype, trust: bool
    ) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            base.folder, dtype=dtype, trust_remote_code=trust, use_safetensors=True
        ).eval()
        self._state = self._model.state_dict()
        stored = (f"{module}.weight" for module in checkpoint.modules)
        require_names([*base.names, *stored], self._state)
        self._tokenizer = AutoTokenizer.from_pretrained(base.folder, trust_remote_code=trust)
        self._ids = self._tokenizer(TEXT, return_tensors="pt")["input_ids"]
        self._reference = self._log_probs()
        for module in checkpoint.modules:
            self._state[f"{module}.weight"].copy_(checkpoint.weight(module))
        for name, tensor in checkpoint.unquantized():
            if name in self._state:
                self._state[name].copy_(tensor)
            elif name.endswith(".bias") and not tensor.any():
                continue  # GPTQ tools write biases of zeros, which engines leave out
            else:
                raise Unsound(f"{name} is in it, which the model does not have")

    def weight(self, module: str) -> torch.Tensor:
        """The [output, input] weight of a module, float32."""
        return self._state[f"{module}.weight"].float()

    @torch.inference_mode()
    def speak(self) -> dict[str, Any]:
        """KL to the unquantized model on a short text, and a greedy continuation.

        Raises:
            Unsound: numbers that are not finite, with the first module that makes them, or a
                distribution that has nothing to do with the model's.
        """
        found = self._log_probs()
        if not torch.isfinite(found).all():
            raise Unsound(f"{self._first_not_finite()} gives NaN or infinity")
        kl = torch.nn.functional.kl_div(
            found, self._reference, log_target=True, reduction="batchmean"
        ).item()
        if kl > KL_LIMIT:
            raise Unsound(f"the model is lost: KL {kl:.2f} to the unquantized one on a plain text")
        answer = self._model.generate(
            self._ids,
            attention_mask=torch.ones_like(self._ids),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=self._tokenizer.pad_token_id or 0,
        )
        text = self._tokenizer.decode(answer[0, self._ids.shape[1] :], skip_special_tokens=True)
        return {"kl": kl, "answer": text}

    @torch.inference_mode()
    def _log_probs(self) -> torch.Tensor:
        return torch.log_softmax(self._model(self._ids).logits[0].float(), dim=-1)

    def _first_not_finite(self) -> str:
        """The first module, in the order of computing, that gives what is not finite."""
        found: list[str] = []

        def look(name: str) -> Any:
            def hook(module: Any, args: Any, output: Any) -> None:
                given = output[0] if isinstance(output, tuple) else output
                if torch.is_tensor(given) and not torch.isfinite(given).all():
                    found.append(name)

            return hook

        hooks = [
            module.register_forward_hook(look(name))
            for name, module in self._model.named_modules()
            if not list(module.children())
        ]
        self._model(self._ids)
        for hook in hooks:
            hook.remove()
        return found[0] if found else "the head"


def read_back(
    checkpoint: Checkpoint,
    base: Checkpoint,
    scheme: dict[str, Any],
    modules: list[str],
    dtype: torch.dtype,
    trust: bool,
    *,
    limit: float | None = None,
    mend: str | None = None,
    far_mend: str | None = None,
    expected_bytes: int | None = None,
) -> dict[str, Any]:
    """All checks of a saved checkpoint.

    ``limit`` of weight errors is by bits where absent; ``far_mend`` is of weights beyond it.

    Raises:
        Refusal: it is unsound, far from the model, or no longer speaks.
    """
    mend = mend or MEND
    try:
        checked = verify(checkpoint, base, scheme, modules, expected_bytes)
        revived = Revived(checkpoint, base, dtype, trust)
        if scheme["weights"]:
            limit = limit or ERROR_LIMITS[scheme["weights"]["num_bits"]]
            errors = check_weights(revived, base, modules, limit)
            checked |= {"weight_errors": errors, "not_compared": sorted({*modules} - {*errors})}
            if checked["not_compared"]:
                progress(
                    f"warning: {len(checked['not_compared'])} weights could not be held to the"
                    " model's: smoothing moved scale in blocks other than Llama's"
                )
        return {**checked, "smoke": revived.speak()}
    except Unsound as found:
        far = isinstance(found, TooFar) and far_mend
        raise Refusal(str(found), far or mend) from found


def require_names(names: Iterable[str], loaded: Collection[str]) -> None:
    """Check that a loaded model has the tensors that its files have, by the same names.

    Version 5 of transformers makes one tensor of a layer's experts, and renames what it wraps.

    Raises:
        Refusal: with the first that it lacks; biases apart, which files hold as zeros.
    """
    lost = [name for name in names if name not in loaded and not name.endswith(".bias")]
    if lost:
        message = f"{lost[0]} is not in the loaded model: transformers fuses or renames it"
        raise Refusal(message, UNKNOWN)


def compute_dtype() -> torch.dtype:
    """The type that models are computed in here."""
    # Without AVX512-BF16 or AMX, bfloat16 products are emulated: 7 times slower than float32.
    native = torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if native else torch.float32
