"""Score functions. `BACKBONES` names them all; a new one is one file and one line here."""

from meor.backbone.base import Backbone, Geometry, Model, Scoring
from meor.backbone.complex import ComplEx
from meor.backbone.distmult import DistMult
from meor.backbone.rotate import RotatE
from meor.backbone.transdot import TransDot
from meor.backbone.transe import TransE
from meor.backbone.transe_inverse import TransEInverse
from meor.backbone.transe_l2 import TransEL2

BACKBONES: dict[str, Backbone] = {
    backbone.name: backbone
    for backbone in (ComplEx(), DistMult(), TransE(), TransEL2(), RotatE(), TransDot(), TransEInverse())
}
"""Score functions by name; a run's setting `backbone` is one of them."""

__all__ = [
    "BACKBONES",
    "Backbone",
    "ComplEx",
    "DistMult",
    "Geometry",
    "Model",
    "RotatE",
    "Scoring",
    "TransDot",
    "TransE",
    "TransEInverse",
    "TransEL2",
]
