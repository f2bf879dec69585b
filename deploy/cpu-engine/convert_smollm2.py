"""Turn a GGUF file of the llama architecture into an ordinary Hugging Face folder.

Writes bf16 safetensors, the configuration, the tokenizer and the chat template: what vLLM serves on
a CPU, where it cannot read GGUF itself. Needs gguf, numpy, torch, safetensors and transformers, and
no network (set HF_HUB_OFFLINE=1).

    python convert_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


class Source:
    """The GGUF file: its fields by name, and its tensors."""

    def __init__(self, path: Path) -> None:
        self.reader = GGUFReader(str(path))
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise SystemExit(f"{path} holds a {architecture} model; only llama can be converted")

    def field(self, name: str) -> Any:  # noqa: ANN401 - a GGUF field may hold any scalar or list
        return self.reader.fields[name].contents()

    def llama(self, name: str) -> Any:  # noqa: ANN401 - as above
        return self.field(f"llama.{name}")


def main(gguf: Path, folder: Path) -> None:
    source = Source(gguf)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = convert_tensors(source)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = describe(source, is_tied="lm_head.weight" not in tensors)
    write_json(folder / "config.json", config)
    token_ids = ("bos_token_id", "eos_token_id", "pad_token_id")
    write_json(folder / "generation_config.json", {name: config[name] for name in token_ids})
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.model_max_length = config["max_position_embeddings"]
    tokenizer.chat_template = source.field("tokenizer.chat_template")
    tokenizer.save_pretrained(folder)
    sys.stdout.write(f"converted {len(tensors)} tensors into {folder}\n")


def convert_tensors(source: Source) -> dict[str, torch.Tensor]:
    names = tensor_names(source.llama("block_count"))
    heads = {
        ".attn_q.": source.llama("attention.head_count"),
        ".attn_k.": source.llama("attention.head_count_kv"),
    }
    tensors = {}
    for tensor in source.reader.tensors:
        if tensor.name not in names:
            sys.stdout.write(f"left out {tensor.name}\n")
            continue
        weights = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        for part, count in heads.items():
            if part in tensor.name:
                weights = undo_rope_order(weights, count)
        tensors[names[tensor.name]] = torch.tensor(weights).to(torch.bfloat16)
    return tensors


def tensor_names(layers: int) -> dict[str, str]:
    names = dict(OUTER_NAMES)
    for layer in range(layers):
        for theirs, ours in LAYER_NAMES.items():
            names[f"blk.{layer}.{theirs}.weight"] = f"model.layers.{layer}.{ours}.weight"
    return names


def undo_rope_order(weights: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp interleaves the halves of each head of q and k for its kernel; put them back."""
    half = weights.shape[0] // heads // 2
    halves = weights.reshape(heads, half, 2, *weights.shape[1:])
    return halves.swapaxes(2, 1).reshape(weights.shape)


def describe(source: Source, *, is_tied: bool) -> dict[str, Any]:
    hidden, heads = source.llama("embedding_length"), source.llama("attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "dtype": "bfloat16",
        "hidden_size": hidden,
        "intermediate_size": source.llama("feed_forward_length"),
        "num_hidden_layers": source.llama("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.llama("attention.head_count_kv"),
        "head_dim": hidden // heads,
        "vocab_size": source.llama("vocab_size"),
        "hidden_act": "silu",
        "max_position_embeddings": source.llama("context_length"),
        "rms_norm_eps": round(source.llama("attention.layer_norm_rms_epsilon"), 9),
        "rope_theta": source.llama("rope.freq_base"),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": is_tied,
        "bos_token_id": source.field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.field("tokenizer.ggml.eos_token_id"),
        "pad_token_id": source.field("tokenizer.ggml.padding_token_id"),
    }


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
