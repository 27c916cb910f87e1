"""Audits of truthfulness, participation and privacy, as an outsider would make them.

Every result has ``passed``, ``summary()`` and ``to_dict()``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
