"""Check certificates without trusting who made them; nothing of dpmarket is imported.

This folder can be read in one sitting, copied away and run alone:

    python -m verifier certificate.json --receipt receipt.json --cost 1.5

In the order in which it is read: ``verdicts`` (what a check says), ``reading`` (bytes to plain data),
``layout`` (plain data to a certificate's parts), ``rounding`` and ``losses`` (what a weight costs),
``constants``, ``commitments``, ``menus``, ``prices``, ``receipts``, ``openings``, ``rules``, ``statements``
and ``signatures``, joined in ``certificate``.
"""

from .certificate import verify as verify
from .verdicts import Check as Check
from .verdicts import Verification as Verification
