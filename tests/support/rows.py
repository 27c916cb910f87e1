"""Rows of a table, computed by functions that another process can import by name."""

from dpmarket import InvalidInput


def square(number):
    return {"square": number * number}


def fail_at_three(number):
    if number == 3:
        raise InvalidInput("expected anything but 3.")
    return square(number)
