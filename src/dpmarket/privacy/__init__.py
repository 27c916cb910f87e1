"""What a weight costs in privacy, and the weights that keep given promises.

One record of weight ``a`` in a regularised logistic regression with noise in the objective costs its
owner a privacy loss that :func:`~dpmarket.privacy.accounting.privacy_loss` bounds tightly and rounds up.
:func:`~dpmarket.privacy.weights.weights_for` goes the other way, from promises to weights. With more than
two classes :func:`~dpmarket.privacy.softmax.softmax_privacy_loss` and
:func:`~dpmarket.privacy.softmax_weights.softmax_weights_for` take their places.
:mod:`~dpmarket.privacy.exact_density` and :mod:`~dpmarket.privacy.worst_case` do not use the bound: they
compute the exact density of the released coefficients, and look for the data on which it leaks most.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
