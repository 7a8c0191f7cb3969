"""The package's version, which is that of the server it goes with."""

__version__ = "0.1.0"
