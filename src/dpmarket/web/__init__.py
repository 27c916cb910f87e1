"""The live service: an API and pages over the acts of a market, a client, and the processes that serve it.

Needs the extra ``service``: ``pip install 'dpmarket[service]'``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
