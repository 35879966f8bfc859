"""What is in the archives of a release: python .ci/archives.py FOLDER, with one sdist and one wheel in it."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT = 5_500_000  # bytes of a wheel; the kernels of every family stand in it three times, once per instruction set
LARGE = {
    "docs/assets/check.html",  # the sample report of three frameworks on every operator
    "tests/corpus/digests.json",  # a digest of every output of the corpus
}
NEEDED = [
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CMakeLists.txt",
    "CMakePresets.json",
    "CONTRIBUTING.md",
    "LICENSE",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    ".ci",
    "benchmarks",
    "conftest.py",
    "cpp",
    "docs",
    "examples",
    "mkdocs.yml",
    "pyproject.toml",
    "src",
    "tests",
    "tools",
]
UNWANTED = re.compile(
    r"(^|/)(__pycache__|build|dist|\.venv|\.git|\.github|\.hypothesis|\..*_cache)(/|$)|\.(pyc|o|a|so|pyd|whl)$"
)
IN_WHEEL = re.compile(
    r"^halfulp\.libs/libgomp-[\w.-]+$|"  # auditwheel's copy of the OpenMP runtime
    r"^halfulp/[\w/]*(\w+\.py|_core\.pyi|py\.typed|page\.(css|js)|schema\.json|_core\.[\w.-]+\.(so|pyd))$"
)


def complain(complaints: list[str], path: Path) -> None:
    """End with what is wrong, if anything is."""
    if complaints:
        sys.exit(f"{path.name}:\n" + "\n".join(complaints))


def check_sdist(path: Path) -> int:
    """Everything that building, testing and reading need, and nothing else; the number of files."""
    with tarfile.open(path) as archive:
        sizes = {m.name.partition("/")[2]: m.size for m in archive.getmembers() if m.isfile()}
    complaints = [f"{name} is missing" for name in NEEDED if not any(n.split("/")[0] == name for n in sizes)]
    complaints += [f"{name} does not belong there" for name in sizes if name.split("/")[0] not in NEEDED]
    complaints += [f"{name} does not belong there" for name in sizes if UNWANTED.search(name)]
    complaints += [
        f"{name} is large: {size:,} bytes" for name, size in sizes.items() if size > 250_000 and name not in LARGE
    ]
    kept = [
        p for folder in ("src", "cpp", "tests", "docs", "examples") for p in (ROOT / folder).rglob("*.*") if p.is_file()
    ]
    names = [p.relative_to(ROOT).as_posix() for p in kept]
    complaints += [f"{n} is missing" for n in names if n not in sizes and not UNWANTED.search(n)]
    complain(complaints, path)
    return len(sizes)


def check_wheel(path: Path) -> int:
    """The package, its types and its licence, without sources of the core; the number of files."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
    inside = [name for name in names if ".dist-info/" not in name and not name.endswith("/")]
    complaints = [f"{name} does not belong there" for name in inside if not IN_WHEEL.match(name)]
    if "-linux_" in path.name:
        complaints.append("auditwheel has not repaired it: no index takes the tag linux")
    needed = ["halfulp/py.typed", "halfulp/_core.pyi", "halfulp/conformance/report/schema.json"]
    complaints += [f"{name} is missing" for name in needed if name not in names]
    if not any(re.search(r"_core\..*\.(so|pyd)$", name) for name in inside):
        complaints.append("the compiled core is missing")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        complaints.append("the licence is missing")
    if "\nLicense-Expression: MIT\n" not in metadata:
        complaints.append("the metadata do not name the licence")
    if path.stat().st_size >= LIMIT:
        complaints.append(f"{path.stat().st_size:,} bytes; at most {LIMIT:,} are wanted")
    complain(complaints, path)
    return len(names)


def main() -> None:
    """Check the two archives of a folder."""
    folder = Path(sys.argv[1])
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    for path, files in ((sdist, check_sdist(sdist)), (wheel, check_wheel(wheel))):
        print(f"{path.name}: {files} files, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
