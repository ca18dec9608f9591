"""A real llama.cpp server with a model of a few hundred kilobytes that is written here.

The model is a chain: all blocks are zero, so that the residual stream carries the last token's one-hot embedding to the output matrix,
which maps every token to its successor. What it says is therefore known, and it says it at any temperature of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

ANSWER = (" Paris", " is", " the", " capital", " [T1]")
"""What a model says unless it is told otherwise."""

_SPECIAL = ("<unk>", "<s>", "</s>")
_END = 2
_HEAD = 4
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def write_model(path: Path, words: Sequence[str] = ANSWER, *, endless: bool = False, context: int = 8_192) -> Path:
    """A GGUF file whose model answers anything with ``words``, once or for ever."""
    import gguf

    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *(word.replace(" ", "▁") for word in words)]
    first = len(tokens) - len(words)
    size = -(-len(tokens) // _HEAD) * _HEAD
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HEAD)
    writer.add_head_count(size // _HEAD)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256, *[_NORMAL] * len(words)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(_END)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)
    successors = dict.fromkeys(range(len(tokens)), first)
    successors |= {first + i: first + i + 1 for i in range(len(words) - 1)}
    successors[len(tokens) - 1] = first if endless else _END
    for name, tensor in _tensors(len(tokens), size, successors).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(vocabulary: int, size: int, successors: dict[int, int]) -> dict[str, np.ndarray]:
    embedding = np.eye(vocabulary, size, dtype=np.float32)
    output = np.zeros((vocabulary, size), dtype=np.float32)
    for token, successor in successors.items():
        output[successor, token] = 1.0
    ones = np.ones(size, dtype=np.float32)
    shapes = {
        "attn_q": (size, size),
        "attn_k": (_HEAD, size),
        "attn_v": (_HEAD, size),
        "attn_output": (size, size),
        "ffn_gate": (_HEAD, size),
        "ffn_up": (_HEAD, size),
        "ffn_down": (size, _HEAD),
    }
    return {
        "token_embd.weight": embedding,
        "output_norm.weight": ones,
        "output.weight": output,
        "blk.0.attn_norm.weight": ones,
        "blk.0.ffn_norm.weight": ones,
        **{f"blk.0.{name}.weight": np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()},
    }


class LlamaServer:
    """llama.cpp's own HTTP server, in this process, on a port of its own."""

    def __init__(self, model: Path, *, context: int = 8_192, parallel: int = 2, api_key: str = "") -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_ctx = context
        params.n_parallel = parallel
        params.cpuparams.n_threads = 1
        params.warmup = False
        params.verbosity = 0
        params.port = 0
        params.api_keys = [api_key] if api_key else []
        self._server = xllamacpp.Server(params)
        self.base_url = f"{self._server.listening_address}/v1"
