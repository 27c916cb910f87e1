"""Read and show docstrings as they are meant where napoleon and autodoc do not.

Attributes that share a description are read one by one, as parameters are; ``a, b`` would else become b of
type a. They are shown together, with their description once. A property's first words are no type, whatever
colon follows them, and it may have sections. Signatures have no private arguments, and protocols none.
"""

import re
from collections import _tuplegetter
from functools import partial
from itertools import groupby

from docutils import nodes
from sphinx.addnodes import literal_strong
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

_of_attributes = GoogleDocstring._parse_attributes_section


def _one_by_one(self: GoogleDocstring, section: str) -> list[str]:
    self._consume_fields = partial(GoogleDocstring._consume_fields, self, multiple=True)
    try:
        return _of_attributes(self, section)
    finally:
        del self._consume_fields


def _as_of_a_function(self: GoogleDocstring) -> list[str]:
    self._what = "function"
    self._parse()
    return []


def _shown(app, what, name, *more):
    """A signature without private arguments, or without any where a protocol's would be meaningless."""
    thing, _, arguments, returned = more
    if what == "class" and getattr(thing, "_is_protocol", False):
        return "", returned
    if arguments:
        arguments = re.sub(r"(, )?\b_\w+=(?:[^,()]|\([^()]*\))*", "", arguments).replace("(, ", "(")
        for odd, plain in (("=<factory>", "=..."), ("PosixPath(", "Path("), ("lambda :", "lambda:")):
            arguments = arguments.replace(odd, plain)
    return arguments, returned


def _without_foreign_links(app, what, name, thing, options, lines):
    """Docstrings inherited from other libraries link to places of their own documentation."""
    lines[:] = [re.sub(r":ref:`([^`<]+?)(?: <[^>`]+>)?`", r"\1", line) for line in lines]


def _skipped(app, what, name, thing, skip, options):
    """A named tuple's fields are described in its docstring."""
    return True if isinstance(thing, _tuplegetter) else None


def _together(app: Sphinx, tree: nodes.document) -> None:
    """Neighbours in a list of fields with the same description become one item that names them all."""
    for field in list(tree.findall(nodes.field)):
        items = [item for item in field.findall(nodes.list_item) if _name(item)]
        for (_, words), alike in groupby(items, lambda item: (id(item.parent), _words(item))):
            first, *others = alike
            if words:
                first[0][1:1] = [part for other in others for part in (nodes.Text(", "), other[0][0])]
                for other in others:
                    other.parent.remove(other)


def _name(item: nodes.list_item) -> nodes.strong | None:
    return item[0][0].next_node(literal_strong, include_self=True) if item[0].children else None


def _words(item: nodes.list_item) -> str:
    return "".join(part.astext() for part in [*item[0][1:], *item[1:]])


def setup(app: Sphinx) -> dict[str, bool]:
    """Take the place of two methods of napoleon, and mend what autodoc shows."""
    GoogleDocstring._parse_attributes_section = _one_by_one
    GoogleDocstring._parse_attribute_docstring = _as_of_a_function
    app.connect("autodoc-process-signature", _shown)
    app.connect("autodoc-process-docstring", _without_foreign_links)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("doctree-read", _together)
    return {"parallel_read_safe": True}
