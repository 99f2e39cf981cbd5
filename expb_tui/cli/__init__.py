"""The command tree. Nouns are imported when used; only ``output`` writes stdout, only ``diagnostics`` stderr."""
