"""The only code that reads or writes run files: Parquet parts of a study, and the union with its journal.

May import `cilab.core` and `cilab.store.journal`. Never calls a model, never plots.

Layout of a study's folder: `tables/<table>/part-NNNNNN.parquet`, `journal.sqlite`, `study.yaml`.

What is durable when
    A group of rollouts is one part number in every table that has rows. Each part is written under a
    temporary name, fsynced and renamed; the part of `runs` comes last and commits the group. Readers
    ignore parts without their `runs` part; a writer that was killed in between writes the same number
    again, from the journal. A reader looks at the journal first and then at the list of committed groups,
    once for a question, so it sees each rollout once, whole, at any instant.
"""

from cilab.core.errors import TableError
from cilab.store.mirror import Mirror, mirror
from cilab.store.parts import (
    RUN_TABLES,
    check_parts,
    check_writable,
    collect,
    finished_jobs,
    payload_frames,
    revive,
    run_states,
    transcript,
    wire_messages,
    write_group,
    write_text,
)
from cilab.store.sql import answer
from cilab.store.study import Study, open_here, open_study

__all__ = [
    "RUN_TABLES",
    "Mirror",
    "Study",
    "TableError",
    "answer",
    "check_parts",
    "check_writable",
    "collect",
    "finished_jobs",
    "mirror",
    "open_here",
    "open_study",
    "payload_frames",
    "revive",
    "run_states",
    "transcript",
    "wire_messages",
    "write_group",
    "write_text",
]
