"""A catalogue entry that makes vectors with the weights of the small text model."""

from pathlib import Path

from tests.engine.real_cell import TEXT_MODEL

from penstock.catalogue.models import BUILTIN_FOLDER

VECTORS_MODEL = "@local/penstock/smollm2-vectors"
# vLLM's flags that turn a model made for text into one that answers with vectors.
_CHANGES = {
    TEXT_MODEL: VECTORS_MODEL,
    'aliases = ["smollm2"]': 'aliases = ["vectors"]',
    'family = "openai"': 'family = "embeddings"',
    'capabilities = ["tools", "structured_output", "async_queue"]': "capabilities = []",
    '"--tool-call-parser", "hermes", "--enable-auto-tool-choice",': (
        '"--runner", "pooling", "--convert", "embed",'
    ),
}


def add_vectors_model(folder: Path) -> None:
    """Write the entry, and a `penstock.toml` in `folder` that has it in its catalogue."""
    entry = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    for before, after in _CHANGES.items():
        assert before in entry
        entry = entry.replace(before, after)
    catalogue = folder / "catalogue"
    catalogue.mkdir()
    (catalogue / "vectors.toml").write_text(entry)
    (folder / "penstock.toml").write_text(f'[catalogue]\nfolder = "{catalogue}"\n')
