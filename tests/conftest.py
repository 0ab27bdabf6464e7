"""Shared by every test: this file puts `tests` on the path, so that `oracle` can be imported."""
