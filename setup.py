"""Where the packages lie; everything else about the project is in pyproject.toml.

The rooms at the top of the tree are packages of medal_judges, by a link each in src/medal_judges/.
A clone on Windows has text files in place of links unless git was told otherwise; so that it
installs too, the rooms are then taken from where they are.
"""

from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOMS = ("configs", "data_prep", "eval", "inference", "models", "training")
INSIDE = Path("src", "medal_judges")


def packages_in(folder: str) -> list[str]:
    """Returns the packages in ``folder``, and its folders of package data, for setuptools."""
    return find_namespace_packages(folder, exclude=["*__pycache__*"])


apart = [room for room in ROOMS if not (INSIDE / room).is_dir()]
packages = packages_in("src")
for room in apart:
    packages += [f"medal_judges.{room}"]
    packages += [f"medal_judges.{room}.{inner}" for inner in packages_in(room)]
setup(
    packages=packages,
    package_dir={"": "src"} | {f"medal_judges.{room}": room for room in apart},
)
