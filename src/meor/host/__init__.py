"""Continual learners. `HOSTS` names them all; a new one is one file and one line here."""

from meor.host.base import Host
from meor.host.replay import Replay

HOSTS: dict[str, type[Host]] = {host.name: host for host in (Replay,)}

__all__ = ["HOSTS", "Host", "Replay"]
