"""What a ledger's type promises: when an add is acknowledged, and how far the LAC may go. Pure."""
