"""qpipe: quantization evaluation and regression pipeline.

Importing this package loads no torch, vllm or llmcompressor; work that needs them runs
under other interpreters (see :mod:`qpipe.envs` and :mod:`qpipe.workers`).
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
