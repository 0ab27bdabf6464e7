from tests.methods.conftest import _one_thread

__all__ = ["_one_thread"]
