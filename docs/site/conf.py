"""Settings of Sphinx for `make docs`. A build fetches nothing, and its pages open from a folder, search included.

`pages.py` beside this file writes the pages that are made from the package.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reference import classes

import cilab

project = "cilab"
author = copyright = "The cilab authors"
release = cilab.__version__
extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "pages"]

# A single backtick is code, in docstrings as in Markdown; `pages` makes links of those that name something.
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_use_type_comments = False
maximum_signature_line_length = 88
numpydoc_show_class_members = False
# What is returned or raised leads to its class where that is ours.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
# The words of truth would link to a page of the Python docs, which are not here.
numpydoc_xref_aliases = dict.fromkeys(("bool", "boolean", "True", "False"), "bool")
numpydoc_xref_aliases |= {name: f"{same[0].__module__}.{name}" for name, same in classes().items()}

html_theme = "furo"
html_title = f"cilab {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # a page cannot read another one in a folder
