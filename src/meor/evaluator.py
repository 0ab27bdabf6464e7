"""PyKEEN's rank-based evaluator for both universes: one pass, every metric with and without newcomers."""

from __future__ import annotations
