"""What may be compiled: the list of modules, held to the rules that mypyc has no error for."""

import ast

import pytest
from deploy.native.build import ROOT, read_modules

SOURCE = ROOT / "src" / "penstock"
MODULES = read_modules()
ALL = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))


def dotted(module: str) -> str:
    return "penstock." + module.removesuffix(".py").replace("/", ".")


COMPILED = {dotted(module) for module in MODULES}


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Each name that a module imports from ours, with the module it comes from."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("penstock")
        for alias in node.names
    }


def bases_of(module: str) -> list[str]:
    """The classes that a module's classes stand on, by their full names as far as they are ours."""
    tree = ast.parse((SOURCE / module).read_text())
    names = imported_names(tree)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = [ast.unparse(base).partition("[")[0] for each in classes for base in each.bases]
    return [
        ".".join([names.get(first, first), *rest])
        for first, *rest in (base.split(".") for base in bases)
    ]


def is_of(base: str, modules: set[str]) -> bool:
    return origin(base).rpartition(".")[0] in modules


def origin(name: str) -> str:
    """Where a name that a room's `__init__.py` hands on is defined."""
    package = SOURCE.joinpath(*name.split(".")[1:-1])
    opening = package / "__init__.py"
    if not opening.is_file():
        return name
    return imported_names(ast.parse(opening.read_text())).get(name.rpartition(".")[2], name)


def test_each_module_is_listed_once_in_order_and_exists() -> None:
    assert sorted(set(MODULES)) == MODULES
    assert set(MODULES) <= set(ALL)


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_defines_no_struct(module: str) -> None:
    assert not [base for base in bases_of(module) if base.endswith(("Struct", "Structure"))]


def test_no_interpreted_class_stands_on_a_compiled_one() -> None:
    # mypyc says nothing, and the first instance raises: "interpreted classes cannot inherit".
    strays = {
        f"{module}: {base}"
        for module in sorted(set(ALL) - set(MODULES))
        for base in bases_of(module)
        if is_of(base, COMPILED)
    }
    assert strays == set()
