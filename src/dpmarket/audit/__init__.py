"""Audits of truthfulness, participation and privacy, as an outsider would make them.

:func:`audit_truthfulness` searches for a misreport that gains, :func:`audit_participation` for sellers who
are paid less than their cost, and :func:`audit_privacy` for privacy budgets that are exceeded: by sampled
models, by the exact density (:func:`audit_density`) and by recomputed spending (:func:`audit_spending`).
Every result has ``passed``, ``summary()`` and ``to_dict()``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
