from tests.training.conftest import stream

__all__ = ["stream"]
