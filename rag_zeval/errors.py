"""The one error a user is meant to read."""


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says where and what."""
