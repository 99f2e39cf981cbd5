"""The cockpit (Textual). Importing this package imports nothing."""
