"""What exists for the paper only: its printed methods, its experiments and claims.

Nothing else in the package uses this room, but for the command ``dpmarket reproduce``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
