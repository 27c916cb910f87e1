"""The figures of the paper: tables in, axes out."""
