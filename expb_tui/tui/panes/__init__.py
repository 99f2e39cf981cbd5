"""One module per pane; none imports another."""
