"""What a configuration's `data` may name: jsonargparse finds classes by name once they are imported."""

from mgvr_lightning.data.corpora.builtin import Builtin
from mgvr_lightning.data.corpora.datatrove import Datatrove
from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.data.tasks.induction import Induction
from mgvr_lightning.data.tasks.mqar import MQAR
from mgvr_lightning.data.tasks.two_hop import TwoHop
from mgvr_lightning.data.text import Text

CORPORA = (Builtin, Files, Hub, Datatrove)
DATA = (Text, Induction, TwoHop, MQAR)
