"""Samples for people, their forms, and their answers read back: `cilab.samples`.

`samples` draws, `forms` writes what people fill in, `answers` reads it (`cilab import labels|reviews`). May import
`cilab.core`, `cilab.store`, `cilab.show` and `cilab.datasets`. Calls no model.
"""

from cilab.humans.forms import CONTEXT_CHARS, Choices, Form, restore, show_item, write_form
from cilab.humans.samples import Sample, SampleError, sample_messages, sample_runs

__all__ = [
    "CONTEXT_CHARS",
    "Choices",
    "Form",
    "Sample",
    "SampleError",
    "restore",
    "sample_messages",
    "sample_runs",
    "show_item",
    "write_form",
]
