"""The keeper: one process per user and host that renews every lease set to be kept (architecture, rule 5)."""
