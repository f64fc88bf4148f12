"""The only place that touches the operating system: files and clock, as ports."""
