"""Check certificates without trusting their maker; nothing of dpmarket is imported.

This folder can be read in one sitting, copied away and run with Python alone:

    python -m verifier certificate.json --receipt receipt.json --cost 1.5

In reading order: ``tables.txt`` (the parts of a certificate, and what checks say), ``verdicts``, ``reading``
(bytes to plain data), ``arithmetic``, ``release`` (what a weight costs), ``market`` (what an
epsilon is paid), ``public`` and ``lines``, joined in ``certificate``.
"""

from .certificate import verify as verify
from .verdicts import Check as Check
from .verdicts import Verification as Verification
