"""The line-by-line live mode (``--plain``): one line for each change, typed commands, no cursor movement, no colour.

For screen readers, Emacs shells, serial consoles and ``TERM=dumb``. It stands on the same bridge as the cockpit and
imports no Textual.
"""
