"""The research loop: its records, its settings by scope, and what each submitted output leads to."""
