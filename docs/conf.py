"""How `make docs` builds the book."""

import sys
from pathlib import Path

import meor

sys.path.insert(0, str(Path(__file__).parent))  # the directives of the reference lie beside this file

project = "meor"
author = "The contributors of meor"
release = version = meor.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "made_from_code"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"meor {release}"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
highlight_language = "none"  # a block without a language is a command or a listing
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Ids", "Facts", "Floats")}
python_use_unqualified_type_names = True
default_role = "code"
