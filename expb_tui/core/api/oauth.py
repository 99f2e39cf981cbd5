"""The device flow and tokens as typed calls over a ``Transport`` (contract, section 2)."""
