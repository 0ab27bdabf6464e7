"""Continual learners. `HOSTS` names them all; a new one is one file and one line here."""

from meor.hosts.replay import Replay
from meor.training.host import Host, HostSettings

HOSTS: dict[str, type[Host]] = {host.name: host for host in (Replay,)}

__all__ = ["HOSTS", "Host", "HostSettings", "Replay"]
