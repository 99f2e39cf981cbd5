"""The command tree. Nouns are imported when they are used; only ``output`` writes stdout, only ``diagnostics`` stderr."""
