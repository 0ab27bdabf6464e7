"""Continual learners. `HOSTS` names them all; a new one is one file and one line here."""

from meor.hosts.emr import EMR
from meor.hosts.ewc import EWC
from meor.hosts.fastkge import FastKGE
from meor.hosts.fine_tune import FineTune
from meor.hosts.incde import IncDE
from meor.hosts.lkge import LKGE
from meor.hosts.replay import Replay
from meor.hosts.retrain import Retrain
from meor.training.host import Host, HostSettings

HOSTS: dict[str, type[Host]] = {
    host.name: host for host in (Replay, FineTune, EWC, EMR, LKGE, IncDE, FastKGE, Retrain)
}
"""Continual learners by name; a run's setting `host` is one of them."""

__all__ = ["HOSTS", "Host", "HostSettings", "Replay"]
