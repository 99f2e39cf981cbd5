"""Profiles: the file shared with ``expbctl``, the place of secrets, sessions, sign-in. Importing this loads nothing."""
