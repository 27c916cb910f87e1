from .fitting import fit as fit
from .quoting import quote as quote
