"""More than one machine: price schedules, sums and statistics over the partitions of a Dask cluster."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
