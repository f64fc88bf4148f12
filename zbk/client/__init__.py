"""The client: pykka actors around the writer and reader rules, and the public API."""
