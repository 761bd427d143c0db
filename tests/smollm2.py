"""The shapes of SmolLM2-135M."""

from __future__ import annotations

from qpipe.model import Architecture, Linear

BLOCK = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (192, 576),
    "self_attn.v_proj": (192, 576),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (1536, 576),
    "mlp.up_proj": (1536, 576),
    "mlp.down_proj": (576, 1536),
}
LINEARS = {f"model.layers.{n}.{name}": shape for n in range(30) for name, shape in BLOCK.items()}
NORMS = [f"model.layers.{n}.{name}_layernorm" for n in range(30) for name in ("input", "post")]

SMOLLM2 = Architecture(
    tensors={
        "model.embed_tokens.weight": (49152, 576),
        **{f"{name}.weight": shape for name, shape in LINEARS.items()},
        **{f"{name}.weight": (576,) for name in [*NORMS, "model.norm"]},
    },
    linears=tuple(Linear(name, *shape) for name, shape in sorted(LINEARS.items())),
    layers=30,
    hidden=576,
    heads=9,
    kv_heads=3,
    head_dim=64,
)
