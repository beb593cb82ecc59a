"""A study behind an fsspec URL while it is written: played in a local folder, and copied after every group of parts.

May import its neighbours in `cilab.store`, `cilab.store.journal` and `cilab.core`. fsspec is imported inside functions.

What is durable when
    SQLite needs a local disk, so the study runs in a scratch folder. After each group of Parquet parts, and at the
    end, what is new is copied: the parts of `runs` last, since they commit a group, and then a snapshot of the journal.
    A machine that starts where another one stopped first fetches what is there. Lost with a machine's disk is at most
    what came since the last group; a kill of the process alone loses nothing, as the scratch folder stays.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from cilab.core.errors import StoreError, first_line
from cilab.store.journal import JOURNAL_NAME

_LOOSE = ("study*.yaml", "models.csv", "extra.jsonl")


def mirror(out: str | os.PathLike[str] | None, scratch: Path | None = None) -> Mirror | None:
    """The mirror of a URL, with what is there fetched; None for a folder of this machine.

    Raises
    ------
    StoreError
        The URL cannot be read.
    """
    if out is None or "://" not in os.fspath(out):
        return None
    made = Mirror(os.fspath(out), scratch)
    made.pull()
    return made


class Mirror:
    """A local folder and the URL that it is copied to.

    Attributes
    ----------
    folder : where the study runs: below `scratch`, default the user's cache.
    url : where it goes.
    """

    def __init__(self, url: str, scratch: Path | None = None):
        if not url.partition("://")[2].strip("/"):
            raise StoreError(f"{url}: cannot be a study's place; write a bucket or folder after ://")
        self.url = url.rstrip("/")
        name = self.url.rsplit("/", 1)[-1] or "study"
        mark = hashlib.blake2b(self.url.encode(), digest_size=6).hexdigest()
        self.folder = (scratch or _cache()) / f"{name}-{mark}"
        self._copied: dict[str, tuple[int, int]] = {}

    def pull(self) -> None:
        """Fetch what is at the URL and not here. A file of this machine is never replaced."""
        fs, root = self._fs()
        try:
            there = fs.find(root) if fs.exists(root) else []
            for path in there:
                target = self.folder / str(path)[len(root) :].lstrip("/")
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    temporary = target.with_name(f".{target.name}.fetching")
                    fs.get_file(path, str(temporary))
                    os.replace(temporary, target)
                self._copied[target.relative_to(self.folder).as_posix()] = _stamp(target)
        except StoreError:
            raise
        except Exception as e:
            raise self._problem("read", e) from None

    def push(self) -> None:
        """Copy what is new, the parts of `runs` after the others, then a snapshot of the journal.

        Raises
        ------
        StoreError
            The URL cannot be written. What is local stays; the next push copies it.
        """
        if not self.folder.is_dir():
            return
        fs, root = self._fs()
        try:
            for path in self._new():
                name = path.relative_to(self.folder).as_posix()
                stamp = _stamp(path)
                fs.makedirs(f"{root}/{name}".rsplit("/", 1)[0], exist_ok=True)
                fs.put_file(str(path), f"{root}/{name}")
                self._copied[name] = stamp
            self._push_journal(fs, root)
        except StoreError:
            raise
        except Exception as e:
            raise self._problem("written", e) from None

    def _new(self) -> list[Path]:
        parts = sorted(self.folder.glob("tables/*/part-*.parquet"), key=lambda p: (p.parent.name == "runs", p))
        loose = [p for pattern in _LOOSE for p in sorted(self.folder.glob(pattern))]
        found = [*loose, *parts]
        return [p for p in found if self._copied.get(p.relative_to(self.folder).as_posix()) != _stamp(p)]

    def _push_journal(self, fs: Any, root: str) -> None:
        journal = self.folder / JOURNAL_NAME
        if not journal.exists():
            return
        with tempfile.TemporaryDirectory(prefix="cilab-mirror-") as scratch:
            copy = Path(scratch) / JOURNAL_NAME
            source, target = sqlite3.connect(f"file:{journal}?mode=ro", uri=True), sqlite3.connect(copy)
            try:
                source.backup(target)
            finally:
                target.close()
                source.close()
            fs.put_file(str(copy), f"{root}/{JOURNAL_NAME}")

    def _fs(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs

            fs, root = url_to_fs(self.url)
        except ImportError as e:
            raise StoreError(
                f"{self.url}: needs a package that is missing ({e}). For S3: pip install 'cilab[s3]'"
            ) from None
        except ValueError as e:
            raise StoreError(f"{self.url}: is no URL that fsspec knows ({e}).") from None
        fs.invalidate_cache()
        return fs, str(root).rstrip("/")

    def _problem(self, what: str, e: Exception) -> StoreError:
        words = first_line(e)
        return StoreError(
            f"{self.url}: cannot be {what} ({words}). What was played lies in {self.folder}; run the same command "
            "again: it continues."
        )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cilab" / "studies"


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size
