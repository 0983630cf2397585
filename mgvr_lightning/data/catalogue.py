"""What a configuration's `data` may name: jsonargparse finds classes by name once they are imported."""

from mgvr_lightning.data.corpora.builtin import Builtin
from mgvr_lightning.data.corpora.datatrove import Datatrove
from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.data.induction import Induction
from mgvr_lightning.data.mqar import MQAR
from mgvr_lightning.data.text import Text
from mgvr_lightning.data.two_hop import TwoHop

CORPORA = (Builtin, Files, Hub, Datatrove)
DATA = (Text, Induction, TwoHop, MQAR)
