"""Check certificates without trusting who made them; nothing of dpmarket is imported.

This folder can be read in one sitting, copied away and run alone:

    python -m verifier certificate.json --receipt receipt.json --cost 1.5
"""

from .certificate import Check as Check
from .certificate import Verification as Verification
from .certificate import verify as verify
from .payments import verify_payments as verify_payments
