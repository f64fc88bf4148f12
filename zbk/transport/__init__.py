"""ZeroMQ sockets, each owned by one plain thread."""
