"""How Sphinx makes the site of what is under docs/: `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import ntkgp

project = "ntkgp"
author = "the authors of ntkgp"
version = release = ntkgp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstrings",
    "drawn_graph",
    "mathml",
    "playground_page",
    "source_pages",
]
exclude_patterns = ["_extensions"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Headings have the anchors that code hosts give them, so the same links work there and here.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

default_role = "py:obj"  # a link where the name is known, else code
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Options", "params_style")]
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"ntkgp {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

linkcheck_timeout = 20
linkcheck_retries = 2
