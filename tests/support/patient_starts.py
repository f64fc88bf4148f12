"""What is started for tests may take as long as the machine needs: clusters, and ZooKeepers."""

from typing import Final

from tests.support.machine import patient_s
from zbk.cluster.local import START_TIMEOUT_S, LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper

_PATIENT_S: Final = patient_s(START_TIMEOUT_S)


def install() -> None:
    """Scale the default time-outs of starts by the slowness of this machine.

    Nearly every test that starts a cluster takes the default, which suits a machine that runs one
    cluster. On a machine that is busy with other tests, a bookie may take longer to register.
    """
    defaults = LocalCluster.__init__.__kwdefaults__
    assert defaults is not None
    assert "start_timeout_s" in defaults
    defaults["start_timeout_s"] = _PATIENT_S
    LocalZooKeeper.start.__defaults__ = (_PATIENT_S,)
