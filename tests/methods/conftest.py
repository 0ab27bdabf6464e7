"""Generated cases are tiny: waking threads for them would cost more than all of their arithmetic."""

import pytest
import torch

from meor.compiled import set_threads


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    before = torch.get_num_threads()
    set_threads(1)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
