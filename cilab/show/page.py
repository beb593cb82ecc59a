"""The page of one run: its rows, and how they show themselves.

May import `cilab.show` (its parts) and `cilab.store`, for writing the file. Asks no study.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from cilab import store
from cilab.show import markup, plain
from cilab.show.rows import Rows
from cilab.show.words import TEXT_WIDTH, visible


@dataclass(frozen=True, repr=False)
class Page(Rows):
    """One run, readable. Made by `show` and `show_blind`; its attributes are those of `Rows`."""

    @cached_property
    def html(self) -> str:
        """A whole HTML document (str): style inside, no script, nothing loaded from elsewhere."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            f'<meta name="color-scheme" content="light dark"><title>{markup.esc(self.title)}</title>'
            f"<style>{markup.style()}{markup.DOCUMENT_STYLE}</style></head>"
            f"<body>{markup.body(self, 'cilab-run')}</body></html>\n"
        )

    @property
    def text(self) -> str:
        """The page as plain text for a terminal, `TEXT_WIDTH` columns wide."""
        return self.as_text()

    def as_text(self, width: int = TEXT_WIDTH, *, full: bool = False) -> str:
        """The page as plain text. Control characters are made visible, so that no terminal obeys them.

        Parameters
        ----------
        width : columns, at least 40. Maps and short lines are never broken.
        full : also the rest of long messages, arguments and results of tools (`cilab show --full`).
        """
        return "\n".join(plain.lines(self, max(width, 40), full=full)) + "\n"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the HTML document to `path` (UTF-8). Returns the path.

        Raises
        ------
        StoreError
            It cannot be written.
        """
        target = Path(path)
        store.write_text(target, self.html)
        return target

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{visible(self.title)}: {len(self.messages)} events; .text, .html, .save(path)>"

    def _repr_html_(self) -> str:
        return f"<style>{markup.style()}</style>{markup.body(self, 'cilab-run cilab-in-notebook')}"
