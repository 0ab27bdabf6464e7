"""Measure and control candidate-set interference in knowledge graphs that grow."""

__version__ = "0.1.0"
