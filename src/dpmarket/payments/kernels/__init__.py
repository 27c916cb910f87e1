"""Compiled loops of the payments: one seller's epsilon at any report, in each of four cases; its integral.

``alone``: one base solution is known to be all that a re-solve needs to start from; ``several``: a few
stretches of the path are known to hold every minimum; ``limits``: weights follow from the order of costs
alone; ``whole``: nothing is known, the whole path is walked. ``moves`` and ``resolve`` serve the first two,
``integrals`` all of them.
"""
