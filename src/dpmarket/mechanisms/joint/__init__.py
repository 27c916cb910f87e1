"""The data-dependent mechanism of the paper's appendix: weights, noise rate and model chosen together.

``problem`` is the objective at one noise rate, ``newton`` and ``solvers`` minimise it, ``search`` finds
the best noise rate, ``optimum`` joins them and re-solves for moved reports, ``payments`` pays,
``readings`` says how the noise enters, ``mechanism`` checks what callers pass and puts the outcome together.
Nothing here is certified private.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
