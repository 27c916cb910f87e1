from .methods.allocation import PaperAllocation as PaperAllocation
from .methods.allocation import paper_allocation as paper_allocation
from .methods.bound import paper_bound_constants as paper_bound_constants
from .methods.bound import paper_bound_constants_in_bits as paper_bound_constants_in_bits
from .methods.curve import paper_curve as paper_curve
from .methods.privacy_loss import paper_privacy_loss as paper_privacy_loss
