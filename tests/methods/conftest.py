"""Generated cases are tiny: waking threads for them would cost more than all of their arithmetic."""

import numba
import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    numba_threads, torch_threads = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(numba_threads)
    torch.set_num_threads(torch_threads)
