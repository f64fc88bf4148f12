"""What travels between clients and bookies: messages and their codec. Pure."""
