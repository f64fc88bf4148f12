"""The metadata store as a port, its three bodies, and the ledgers and bookies kept in it."""
