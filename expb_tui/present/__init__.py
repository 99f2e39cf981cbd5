"""Pure presenters: a model goes in, a table of cells comes out; command tables and cockpit panes are made of them.

Nothing here draws, waits or reads a clock: what depends on time is given (``now``, or seconds that are left).
"""
