"""How a client reaches its cluster: bookies, metadata, single requests.

``directory`` knows where bookies are, ``placer`` chooses among them, ``metadata_actor`` waits for
the metadata store so that writers do not, ``requests`` sends single requests and waits for the
answers, ``ledger_calls`` builds those about one ledger and checks their answers.
"""
