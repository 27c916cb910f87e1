"""Let an outsider check truthfulness, participation and privacy: nobody has to believe the software.

:func:`audit_truthfulness` searches for a misreport that gains, :func:`audit_participation` looks for
sellers who lost by taking part, and :func:`audit_privacy` for promises that are broken: by the exact density
(:func:`audit_privacy_exact`), by sampled models (:func:`audit_privacy_sampled`) and by recomputed
spending (:func:`audit_accounting`). Every result has ``passed``, ``summary()`` and ``to_dict()``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
