"""The UI-free core: everything that a face may ask for. It prints nothing and imports no face."""
