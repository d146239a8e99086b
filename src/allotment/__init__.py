"""Learns which parts of a network each task uses, while it learns the network."""

__version__ = "0.1.0"
