"""Source packages of Debian, fetched with apt-get. No root is needed, and the lists of the system stay as they are."""

import pathlib
import re
import shutil
import subprocess


class CannotFetch(Exception):
    """Why there is no source package."""


def fetch(package, folder, version=None, only=None):
    """Unpacks the upstream archive of a package into `folder`, and returns the path of what was unpacked.

    Without `version`, any version that the system's release has is taken. `only` is a pattern of members. A package
    that has been unpacked before is not fetched again.
    """
    kept = sorted(folder.glob(f"{package}-{version or '[0-9]*'}"))
    if kept:
        return kept[-1]
    scratch = folder / "apt"
    shutil.rmtree(scratch, ignore_errors=True)
    for name in ("lists/partial", "archives/partial", "parts", "source", "unpacked"):
        (scratch / name).mkdir(parents=True)
    write_sources(scratch / "parts" / "all.sources", scratch / "all.list")
    settings = {
        "Dir::Etc::SourceList": scratch / "all.list", "Dir::Etc::SourceParts": scratch / "parts",
        "Dir::State::Lists": scratch / "lists", "Dir::Cache": scratch, "APT::Sandbox::User": "",
    }
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # A source of other packages may have no source packages: what matters is whether this one is found.
    run(["apt-get", "-qq", *words, "update"], scratch, "the lists of source packages cannot be fetched", strict=False)
    run(["apt-get", "-qq", *words, "source", "--download-only", package], scratch / "source",
        f"the source package of {package} cannot be fetched")
    archives = [path for path in (scratch / "source").glob(f"{package}_*.orig.tar.*") if path.suffix != ".asc"]
    if len(archives) != 1 or version and not archives[0].name.startswith(f"{package}_{version}.orig"):
        names = ", ".join(path.name for path in archives) or "no archive"
        raise CannotFetch(f"this system has {names} instead of {package} {version or ''}".rstrip())
    members = ["--wildcards", only] if only else []
    run(["tar", "-xf", archives[0], "-C", scratch / "unpacked", *members], scratch,
        "the source package cannot be unpacked")
    unpacked, = (scratch / "unpacked").iterdir()
    found = re.match(rf"{re.escape(package)}_(.*)\.orig\.tar", archives[0].name)[1]
    place = folder / f"{package}-{found}"
    unpacked.rename(place)
    shutil.rmtree(scratch)
    return place


def write_sources(sources, lines):
    """The system's package sources, as sources of source packages."""
    etc = pathlib.Path("/etc/apt")
    parts = sorted((etc / "sources.list.d").glob("*"))
    texts = [path.read_text() for path in parts if path.suffix == ".sources"]
    sources.write_text("\n".join(re.sub(r"(?m)^Types:.*$", "Types: deb-src", text) for text in texts))
    texts = [path.read_text() for path in [etc / "sources.list", *parts] if path.suffix == ".list" and path.exists()]
    lines.write_text("\n".join(re.sub(r"(?m)^deb\s", "deb-src ", text) for text in texts))


def run(command, folder, failure, strict=True):
    try:
        done = subprocess.run([str(word) for word in command], cwd=folder, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        raise CannotFetch(f"{failure}: there is no {command[0]}") from None
    if strict and done.returncode:
        raise CannotFetch(failure)
