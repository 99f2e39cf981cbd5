"""expb-tui: a terminal cockpit for people who run AI research agents."""
