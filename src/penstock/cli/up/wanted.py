"""Chooses what `penstock up` runs, from options, configuration and what is installed."""

import shutil
from pathlib import Path

import msgspec

from penstock.catalogue import Catalogue, fill, load_catalogue
from penstock.catalogue.recipes import SAMPLE_VALUES
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.up.any_model import find_program, is_hugging_face_id, write_any_model
from penstock.cli.up.attached import (
    NOT_VLLM,
    ServedModel,
    ask_engine,
    dialect_of,
    match,
    write_entry,
)
from penstock.cli.up.imitated import IMITATED_MODEL, IMITATED_NOTE, REPLICAS, write_imitated
from penstock.config import Config, cpu_engine_folder
from penstock.errors import NotFound
from penstock.fleet.gpus import HostGpus
from penstock.fleet.settings import WantedReplicas
from penstock.records.dialect import VLLM, Dialect
from penstock.records.host import gpus_in_words
from penstock.records.model import Model

_LAPTOP_MODEL = "smollm2"
# How many models of one server that is not vLLM are attached.
_MODELS_MAX = 16


class WantedModels(msgspec.Struct, frozen=True):
    """Replicas, their models (the first is the default one), and notes for the user."""

    replicas: tuple[WantedReplicas, ...]
    models: tuple[Model, ...]
    catalogue_folder: str
    engine_home: str
    notes: tuple[str, ...] = ()


class ModelChooser:
    """Chooses replicas. `models` and `attach` are as given on the command line."""

    def __init__(self, config: Config, models_folder: Path, caller: HttpCaller) -> None:
        self._config = config
        self._caller = caller
        # Entries are written only into our own folder, never into the operator's.
        self._own_folder = None if config.catalogue.folder else models_folder
        folder = config.catalogue.folder or str(models_folder)
        self._settings = msgspec.structs.replace(config.catalogue, folder=folder)
        self._engine_home = config.fleet.engine_home or _installed_engine()
        self._notes: list[str] = []

    def choose(
        self, models: tuple[str, ...], attach: tuple[str, ...], *, is_imitated: bool = False
    ) -> WantedModels:
        """Return the wanted replicas and models, after checking that each is available."""
        replicas = [self._imitated()] if is_imitated else []
        for url in attach:
            # Clients' base URLs end in /v1, so that people write it here too.
            replicas += self._attach(url.rstrip("/").removesuffix("/v1"))
        replicas += [self._launched(name) for name in models]
        if not replicas:
            replicas = list(self._config.fleet.replicas) or [self._laptop_model()]
        catalogue = load_catalogue(self._settings)
        chosen = [catalogue.find(replica.model) for replica in replicas]
        for replica, model in zip(replicas, chosen, strict=True):
            if replica.provider == "process":
                self._check_program(model)
        self._check_gpus(replicas, chosen)
        return WantedModels(
            replicas=tuple(replicas),
            models=tuple({model.id: model for model in chosen}.values()),
            catalogue_folder=self._settings.folder,
            engine_home=self._engine_home,
            notes=tuple(self._notes),
        )

    def _imitated(self) -> WantedReplicas:
        if self._own_folder is None:
            raise CommandFailed(
                "--imitate adds a model to the catalogue: leave catalogue.folder unset.",
                ExitCode.USAGE,
            )
        write_imitated(self._own_folder)
        self._notes.append(IMITATED_NOTE)
        return WantedReplicas(model=IMITATED_MODEL, count=REPLICAS)

    def _attach(self, url: str) -> list[WantedReplicas]:
        served = ask_engine(self._caller, url)
        dialect = dialect_of(self._caller, url, served)
        if dialect == VLLM:
            # One model: what else a vLLM lists are other names of it, and its adapters.
            return [self._attached(url, served, dialect)]
        self._notes.append(f"{url} {NOT_VLLM}")
        if len(served) > _MODELS_MAX:
            self._notes.append(f"{url} lists {len(served)} models; the first {_MODELS_MAX} are run")
        return [self._attached(url, (each,), dialect) for each in served[:_MODELS_MAX]]

    def _attached(
        self, url: str, served: tuple[ServedModel, ...], dialect: Dialect
    ) -> WantedReplicas:
        model = match(load_catalogue(self._settings), served)
        if model is None:
            self._describe(url, served[0], dialect)
            model = match(load_catalogue(self._settings), served)
        assert model is not None, "an entry for it has just been written"
        return WantedReplicas(model=model.id, provider="attach", url=url, dialect=dialect)

    def _describe(self, url: str, served: ServedModel, dialect: Dialect) -> None:
        told = f"{url} serves {served.id}, which is not in the catalogue"
        if self._own_folder is None:
            raise CommandFailed(
                f"{told}: add an entry for it to {self._settings.folder} (docs/catalogue.md).",
                ExitCode.USAGE,
            )
        path = write_entry(self._own_folder, served, dialect)
        self._notes.append(
            f"{told}, so {path} now describes it: family openai, tools, structured output and flex"
            f" work, context {served.max_model_len or 'not told, so a guess'}, no prices."
            " Edit it as you like."
        )

    def _launched(self, name: str) -> WantedReplicas:
        catalogue = load_catalogue(self._settings)
        try:
            catalogue.find(name)
        except NotFound:
            if not is_hugging_face_id(name):
                raise CommandFailed(_unknown(name, catalogue), ExitCode.NOT_FOUND) from None
            self._describe_any(name, catalogue)
        return WantedReplicas(model=name)

    def _describe_any(self, name: str, catalogue: Catalogue) -> None:
        """Write an entry for a model of Hugging Face, if there is a vLLM to run it."""
        program = find_program(self._engine_home)
        if program is None or self._own_folder is None:
            raise CommandFailed(
                f"{_unknown(name, catalogue)} An id of Hugging Face can be run where `vllm` is"
                " installed, unless catalogue.folder is set: then add an entry for it there.",
                ExitCode.NOT_FOUND,
            )
        gpus = min(1, self._count_gpus())
        path = write_any_model(self._own_folder, name, program, gpus)
        self._notes.append(
            f"{name} is not in the catalogue, so {path} now describes it: a plain `vllm serve`,"
            " without tools and prices. Edit it as you like."
        )

    def _laptop_model(self) -> WantedReplicas:
        if not self._engine_home:
            raise CommandFailed(
                "There is no engine to start. Pass --imitate to try Penstock without one, --attach"
                " URL for an engine that runs, or --model NAME; or install the engine for CPUs"
                " with deploy/cpu-engine/setup (about 4 minutes).",
                ExitCode.USAGE,
            )
        return WantedReplicas(model=_LAPTOP_MODEL)

    def _count_gpus(self) -> int:
        return len(HostGpus(self._config.fleet.gpus).read())

    def _check_gpus(self, replicas: list[WantedReplicas], models: list[Model]) -> None:
        """Refuse what cannot run side by side on this host."""
        pairs = zip(replicas, models, strict=True)
        needed = sum(
            replica.count * model.recipe.gpus
            for replica, model in pairs
            if replica.provider == "process"
        )
        here = self._count_gpus() if needed else 0
        if needed > here:
            raise CommandFailed(
                f"That needs {gpus_in_words(needed)}, and this host has {here or 'none'}. Run fewer"
                " or smaller models, attach an engine that runs with --attach URL, or set"
                " fleet.gpus if that is wrong.",
                ExitCode.USAGE,
            )

    def _check_program(self, model: Model) -> None:
        """Refuse a missing program now, not after the keeper has tried five times."""
        needs_home = any("{engine_home}" in part for part in model.recipe.command)
        if needs_home and not self._engine_home:
            raise CommandFailed(
                f"{model.id} needs the engine for CPUs: install it with deploy/cpu-engine/setup"
                " (about 4 minutes), or name its folder in fleet.engine_home.",
                ExitCode.USAGE,
            )
        values = msgspec.structs.replace(SAMPLE_VALUES, engine_home=self._engine_home or "/")
        argv, _ = fill(model.recipe, values)
        if shutil.which(argv[0]) is None:
            raise CommandFailed(
                f"{model.id} is started with {argv[0]}, which is not there. Install it, or attach"
                " an engine that runs with --attach URL.",
                ExitCode.USAGE,
            )


def _unknown(name: str, catalogue: Catalogue) -> str:
    near = catalogue.similar(name)
    hint = f" Did you mean `{near}`?" if near else ""
    return f"No such model `{name}`.{hint} `penstock models list` lists those there are."


def _installed_engine() -> str:
    folder = cpu_engine_folder()
    return str(folder) if (folder / "venv" / ".ready").exists() else ""
