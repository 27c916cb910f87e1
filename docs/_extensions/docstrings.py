"""Read docstrings as they are meant where napoleon does not.

Attributes that share a description are told one by one, as parameters are; ``a, b`` would else become b of
type a. A property's first words are no type, whatever colon follows them.
"""

from functools import partial

from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

_of_attributes = GoogleDocstring._parse_attributes_section


def _one_by_one(self: GoogleDocstring, section: str) -> list[str]:
    self._consume_fields = partial(GoogleDocstring._consume_fields, self, multiple=True)
    try:
        return _of_attributes(self, section)
    finally:
        del self._consume_fields


def setup(app: Sphinx) -> dict[str, bool]:
    """Take the place of two methods of napoleon."""
    GoogleDocstring._parse_attributes_section = _one_by_one
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end
    return {"parallel_read_safe": True}
