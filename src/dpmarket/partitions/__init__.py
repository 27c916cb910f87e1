"""More sellers or rows than one machine holds: the same steps, partition by partition, on any engine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
