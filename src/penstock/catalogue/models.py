"""The catalogue: maps every model id and alias to its model, read once at startup.

Every request calls `find`: one dictionary lookup, and a second one, without regard to case, only if
that fails.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.catalogue.bounded_text import read_bounded_text
from penstock.catalogue.close_names import closest
from penstock.catalogue.entry import read_entry
from penstock.catalogue.entry_error import CatalogueError
from penstock.catalogue.names import DEFAULT_NAME, fault_in
from penstock.catalogue.settings import CatalogueSettings
from penstock.errors import MalformedModel, UnknownModel
from penstock.records.model import Model, ModelId

BUILTIN_FOLDER = Path(__file__).with_name("builtin")


class Catalogue:
    """Models by id, by alias, and by `default`. `files` is used only in name clash errors."""

    def __init__(
        self,
        models: Iterable[Model],
        *,
        default_model: str = "",
        files: Mapping[ModelId, str] | None = None,
    ) -> None:
        self.models: tuple[Model, ...] = tuple(sorted(models, key=lambda model: model.id))
        self._by_name = _index(self.models, files or {})
        self._by_folded_name = _fold(self._by_name)
        self.default: Model | None = None
        if default_model:
            self.default = self._chosen(default_model)
            self._by_name[DEFAULT_NAME] = self.default

    def find(self, name: str) -> Model:
        """Return the model with that id or alias; `default` is the settings' `default_model`."""
        model = self._by_name.get(name) or self._in_any_case(name)
        if model is None:
            raise _not_found(name)
        return model

    def similar(self, name: str) -> str:
        """Return the name that was probably meant; "" if none is similar. For the command line."""
        return next(iter(closest(name, self._by_name)), "")

    def _in_any_case(self, name: str) -> Model | None:
        # Names are ASCII; the lower case of some other letters is too.
        return self._by_folded_name.get(name.lower()) if name.isascii() else None

    def _chosen(self, name: str) -> Model:
        model = self._by_name.get(name) or self._in_any_case(name)
        if model is None:
            raise CatalogueError(
                f"{name!r} is not in the catalogue",
                advice=f"Write one of: {', '.join(model.id for model in self.models)}",
                key="catalogue.default_model",
            )
        return model


def load_catalogue(settings: CatalogueSettings) -> Catalogue:
    """Read the built-in entries, then the operator's, which replace built-in ones of equal id."""
    entries = _read_folder(BUILTIN_FOLDER, settings)
    if settings.folder:
        folder = Path(settings.folder).expanduser()
        if not folder.is_dir():
            raise CatalogueError(
                f"{settings.folder!r} is not a folder",
                advice="Make it, or name one that is there; empty means only built-in models",
                key="catalogue.folder",
            )
        entries |= _read_folder(folder, settings)
    return Catalogue(
        (model for model, _ in entries.values()),
        default_model=settings.default_model,
        files={model_id: file for model_id, (_, file) in entries.items()},
    )


def _read_folder(folder: Path, settings: CatalogueSettings) -> dict[ModelId, tuple[Model, str]]:
    # Editors and mounted volumes leave files with a leading dot.
    paths = sorted(path for path in folder.glob("*.toml") if not path.name.startswith("."))
    if len(paths) > settings.entries_max:
        raise CatalogueError(
            f"there are {len(paths)} entries, more than catalogue.entries_max",
            advice=f"Take some out, or set entries_max under [catalogue] to {len(paths)}",
            file=str(folder),
        )
    entries: dict[ModelId, tuple[Model, str]] = {}
    for path in paths:
        model = _read_file(path, settings.entry_bytes_max)
        if model.id in entries:
            raise CatalogueError(
                f"`{model.id}` is also in {entries[model.id][1]}",
                advice="Remove one of the two files, or change one id",
                key="id",
                file=str(path),
            )
        entries[model.id] = (model, str(path))
    return entries


def _read_file(path: Path, bytes_max: int) -> Model:
    try:
        text = read_bounded_text(
            path,
            bytes_max,
            CatalogueError,
            if_larger="Write one model per file, or raise entry_bytes_max under [catalogue]",
        )
    except OSError as error:
        raise CatalogueError(
            f"cannot be read: {error.strerror}",
            advice="Make it a file that this process may read",
            file=str(path),
        ) from None
    try:
        return read_entry(text)
    except CatalogueError as error:
        raise error.in_file(str(path)) from None


def _index(models: tuple[Model, ...], files: Mapping[ModelId, str]) -> dict[str, Model]:
    by_name: dict[str, Model] = {}
    # All ids come first, so that the error names the alias of a clash: the alias is what to change.
    named: list[tuple[str, str, Model]] = [(model.id, "id", model) for model in models]
    named += [(alias, "aliases", model) for model in models for alias in model.aliases]
    for name, key, model in named:
        other = by_name.setdefault(name, model)
        if other is not model:
            raise CatalogueError(
                f"`{name}` of `{model.id}` is already a name of `{other.id}`",
                advice="Give every model names of its own",
                key=key,
                file=files.get(model.id, ""),
            )
    return by_name


def _fold(by_name: Mapping[str, Model]) -> dict[str, Model]:
    """Return the models by lower-case name, without names that would then mean two models."""
    folded: dict[str, Model] = {}
    unclear: set[str] = set()
    for name, model in by_name.items():
        if folded.setdefault(name.lower(), model) is not model:
            unclear.add(name.lower())
    return {name: model for name, model in folded.items() if name not in unclear}


def _not_found(name: str) -> MalformedModel | UnknownModel:
    fault = fault_in(name)
    if fault:
        return MalformedModel(f"That is not a model id: {fault}.", param="model")
    if name == DEFAULT_NAME:
        return UnknownModel(
            "This installation has no default model: name a model in the request, or set "
            "`default_model` under [catalogue] in its configuration.",
            param="model",
        )
    return UnknownModel(
        f"No such model `{name}`. `GET /v1/models` lists those there are.", param="model"
    )
