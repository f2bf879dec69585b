"""Make a tiny Llava (CLIP and Llama, random weights) that takes vLLM's real image path on a CPU.

It answers nonsense: it is there to carry images through preprocessing, prompt expansion and
decoding. The weights come from a fixed seed. The tokenizer is SmolLM2's with one token more.

    PYTHONPATH=TORCHVISION python make_tiny_vision.py SMOLLM2_FOLDER FOLDER
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

IMAGE_TOKEN = "<image>"  # noqa: S105 - a token of the vocabulary, not a secret
IMAGE_PIXELS = 112
PATCH_PIXELS = 14
IMAGE_TOKENS = (IMAGE_PIXELS // PATCH_PIXELS) ** 2

CHAT_TEMPLATE = r"""
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' }}
{%- if message['content'] is string -%}
{{ message['content'] }}
{%- else -%}
{%- for part in message['content'] or [] -%}
{%- if part['type'] in ('image', 'image_url') -%}
{{ '<image>\n' }}
{%- elif part['type'] == 'text' -%}
{{ part['text'] }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}
""".strip()


def main(smollm2: Path, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE_TOKEN]})
    tokenizer.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(describe(tokenizer)).to(torch.bfloat16)
    model.save_pretrained(folder)
    rename_vision_weights(folder / "model.safetensors")
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(
            size={"shortest_edge": IMAGE_PIXELS},
            crop_size={"height": IMAGE_PIXELS, "width": IMAGE_PIXELS},
        ),
        tokenizer=tokenizer,
        patch_size=PATCH_PIXELS,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=IMAGE_TOKEN,
        chat_template=CHAT_TEMPLATE,
    )
    processor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    millions = sum(weights.numel() for weights in model.parameters()) / 1e6
    sys.stdout.write(f"made {folder}: {millions:.1f} million weights\n")


def describe(tokenizer: AutoTokenizer) -> LlavaConfig:
    vision = CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=IMAGE_PIXELS,
        patch_size=PATCH_PIXELS,
        projection_dim=64,
    )
    text = LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    return LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE_TOKEN),
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_seq_length=IMAGE_TOKENS,
    )


def rename_vision_weights(path: Path) -> None:
    """transformers 5 saves `vision_tower.*`; vLLM 0.32 reads `vision_tower.vision_model.*`."""
    old, new = "vision_tower.", "vision_tower.vision_model."
    renamed = {
        name if new in name else name.replace(old, new): weights.contiguous()
        for name, weights in load_file(path).items()
    }
    save_file(renamed, path, metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
