"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

from dpmarket.version import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "dpmarket"
copyright = "the dpmarket developers, Apache-2.0"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "docstrings", "reference"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_theme = "furo"
html_title = f"dpmarket {__version__}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types of arrays would be longer than what is said of them
# Attributes of several classes have the same name; the first of them is linked.
suppress_warnings = ["ref.python"]
exclude_patterns = ["_build", "_templates", "tables"]
