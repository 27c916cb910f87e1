"""More than one machine: price schedules, sums and statistics over the partitions of a Dask cluster.

:func:`quote` applies public prices to every partition, or prices each part of the sellers by the other parts'
reports; :func:`fit` trains an estimator, or releases a statistic, from sums over partitions. Both take Dask
data frames of the caller. :mod:`~dpmarket.distributed.purchases` carries campaigns over many files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
