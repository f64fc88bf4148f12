"""The promises of ledger types: when an add is acknowledged, and how far the LAC may go. Pure."""
