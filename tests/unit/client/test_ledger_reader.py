"""What a reader learns while it reads."""

from tests.support.bookie_here import ONE
from zbk.client.api import Client


def test_reads_raise_the_lac_of_their_reader(client: Client) -> None:
    writer = client.create_ledger(**ONE)
    reader = client.open_ledger(writer.ledger_id)
    assert reader.last_add_confirmed == -1
    for number in range(10):
        writer.append(b"%d" % number)

    found = [bytes(entry.payload) for entry in reader.read_unconfirmed(0, 9)]

    assert found == [b"%d" % number for number in range(10)]
    lac = reader.last_add_confirmed
    assert lac >= 8  # the last entry has the LAC of before
    assert len(list(reader.read(0, lac))) == lac + 1
    writer.close()
