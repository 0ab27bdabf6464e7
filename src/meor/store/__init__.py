"""Versions in production: admit, gate, explain, predict."""
