import json

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<s>{{ m.role }}: {{ m.content }}</s>\n"
    "{% endfor %}"
)


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory):
    """Saves a byte-level tokenizer without merges: one token a byte."""

    def make(*, template: str | None = TEMPLATE, bos: bool = False, eos: bool = True):
        folder = tmp_path_factory.mktemp("tokenizer")
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        inner = Tokenizer(BPE({letter: index for index, letter in enumerate(alphabet)}, []))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        inner.add_special_tokens(["<s>", "</s>"])
        if bos:
            inner.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", inner.token_to_id("<s>"))]
            )
        inner.save(str(folder / "tokenizer.json"))
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
        if eos:
            config["eos_token"] = "</s>"
        if template:
            config["chat_template"] = template
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        return folder

    return make


@pytest.fixture(scope="session")
def tokenizer_dir(make_tokenizer):
    return make_tokenizer()


@pytest.fixture
def write_mix(tmp_path):
    """Writes sources and a mix that weighs them equally unless told."""

    def write(sources: dict[str, dict], files: dict[str, str | bytes]):
        folder = tmp_path / "calib"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / name).write_bytes(data)
        entries = {
            name: {"format": "text", "category": "prose", "weight": 1, **source}
            for name, source in sources.items()
        }
        path = folder / "mix.yaml"
        path.write_text(json.dumps({"sources": entries}))
        return path

    return write
