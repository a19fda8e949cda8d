"""Traffic from any source, as crossings: who is on the section from when to when."""
