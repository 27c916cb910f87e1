from .certificate import Certificate as Certificate
from .purchase import certify as certify
from .receipt_page import receipt_page as receipt_page
from .verifier import Check as Check
from .verifier import Verification as Verification
from .verifier import verify as verify
