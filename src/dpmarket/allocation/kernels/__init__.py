"""Compiled loops of the allocation: segments of the path, the walk along it, and the certificate's sums."""
