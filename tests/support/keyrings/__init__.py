"""Keyring backends for child processes, in a folder of their own: on the path of a child nothing else is found."""
