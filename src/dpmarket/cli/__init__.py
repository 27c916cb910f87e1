"""The ``dpmarket`` command. Thin: parse, call one function, render. Heavy libraries load late."""

from dpmarket.cli.app import main

__all__ = ["main"]
