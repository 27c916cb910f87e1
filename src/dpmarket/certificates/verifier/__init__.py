"""Check certificates without trusting their maker; nothing of dpmarket is imported.

This folder can be read in one sitting, copied away and run with Python alone:

    python -m verifier certificate.json --receipt receipt.json --cost 1.5

In reading order: ``verdicts`` (what a check says), ``reading`` (bytes to plain data), ``layout`` (the parts
of a certificate), ``rounding``, ``gaussian``, ``constants``, ``model``, ``statistics``, ``release`` (what a
weight costs), ``market`` and ``money`` (what an epsilon is paid), ``public``, ``rules``, ``commitments``,
``lines``, ``openings``, ``reports``, ``statements`` and ``signatures``, joined in ``certificate``.
"""

from .certificate import verify as verify
from .verdicts import Check as Check
from .verdicts import Verification as Verification
