"""The exception that ends the demo with a message instead of a traceback."""


class DemoError(Exception):
    """The demo cannot continue, or one of its checks failed."""
