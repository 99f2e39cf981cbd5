"""expb-tui: a terminal cockpit for people who run AI research agents."""

__version__ = "0.1.0"
