"""Reading the imports of a package from its source, for the tests of architecture and import cost."""

import ast
import re
from itertools import accumulate
from pathlib import Path


def module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(path: Path, module: str) -> set[str]:
    """Every dotted name that a file may import, at any depth and also for type checking only.

    ``from a.b import c`` gives ``a.b.c``: c may be a module, so readers look at prefixes.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=source, names=aliases, level=level):
                if level:
                    above = package.split(".")[: len(package.split(".")) + 1 - level]
                    source = ".".join([*above, source] if source else above)
                names |= {f"{source}.{alias.name}" for alias in aliases}
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                names.add(name)
    return names


def package_imports(package: Path) -> dict[str, set[str]]:
    """Imported names by module, for every file of a package folder."""
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    return {module: imported_names(path, module) for module, path in modules.items()}


def words_of(name: str) -> tuple[str, ...]:
    """Words of the name of a class or file, whatever their order: small, without a plural's s."""
    return tuple(
        sorted(word.lower().removesuffix("s") for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name))
    )


def class_names(path: Path) -> list[str]:
    """Names of the classes at the top of a file."""
    return [node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]


def prefixes(dotted: str) -> set[str]:
    return set(accumulate(dotted.split("."), "{}.{}".format))


def is_kernel(names: set[str], root: str) -> bool:
    """Whether a file with these imports compiles functions: by Numba or by our decorator above it.

    ``numba.objmode`` alone is the way back from compiled code to Python, which a PyMC file may need.
    """
    marks = {"numba", f"{root}.numerics.kernel_options"}
    return any(marks & prefixes(name) for name in names - {"numba.objmode"})
