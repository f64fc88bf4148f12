"""The rules of replicated ledgers: pure state machines and values, no I/O, no clock, no dice."""
