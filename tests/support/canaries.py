"""Look for values that must be nowhere: as text, and as the bytes of a double."""

import struct


def forms_of(*values):
    """Return every form in which a value could stand in a file: numbers as text and in both byte orders."""
    found = []
    for value in values:
        if isinstance(value, float):
            found += [str(value), struct.pack("<d", value), struct.pack(">d", value)]
        else:
            found.append(value)
    return found


def found_in(content, canaries):
    data = content if isinstance(content, bytes) else content.encode()
    return [one for one in canaries if (one if isinstance(one, bytes) else one.encode()) in data]


def files_under(*folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]
