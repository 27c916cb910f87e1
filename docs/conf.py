from dpmarket.version import __version__

project = "dpmarket"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = f"dpmarket {__version__}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
exclude_patterns = ["_build", "tables"]
