"""Fine-tuning: the margin loss on the facts of the update, and nothing else."""

from __future__ import annotations

from meor.hosts.margin import MarginHost


class FineTune(MarginHost):
    name = "fine-tune"
