"""The cockpit and the dialogs over it."""
