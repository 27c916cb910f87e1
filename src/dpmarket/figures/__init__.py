"""Table in, matplotlib axes out: no computing here.

:mod:`~dpmarket.figures.canvas` makes empty figures in the project's style and saves them,
:mod:`~dpmarket.figures.inline` makes them part of a page; every other module draws one kind of picture on
axes that it is given.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
