"""Buy differentially private data truthfully, and train a model that keeps every promise.

What most people need is here; everything else is in its package, such as
``dpmarket.mechanisms.JointMechanism``. Names are loaded when they are first used, so that ``import dpmarket``
and ``dpmarket --help`` take no numerical library with them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
