"""What terminal, tmux, clipboard, keyring, clock, keeper and endpoint can do here, and the line that mends each."""
