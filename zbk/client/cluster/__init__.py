"""How a client reaches its cluster: bookies, metadata, single requests.

``directory`` knows the addresses of bookies, ``placer`` chooses among them, ``metadata_actor``
waits for the metadata store so that writers do not, ``requests`` sends requests and waits for
answers, ``ledger_calls`` builds requests about one ledger and checks their answers.
"""
