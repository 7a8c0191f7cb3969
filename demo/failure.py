"""What ends the demo with a plain message instead of a trace."""


class DemoError(Exception):
    """The demo cannot go on, or something that it promises did not hold."""
