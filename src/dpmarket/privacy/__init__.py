"""What a weight costs in privacy, the weights that spend given epsilons, exact noise, and accounts.

:class:`~dpmarket.privacy.release.Release` joins a loss and a noise norm: one description from which charges,
weights and the grid of a model without delta follow. :class:`~dpmarket.privacy.descent.Descent` is its
counterpart with a delta, and :class:`~dpmarket.privacy.account.Account` adds up what many releases cost.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
