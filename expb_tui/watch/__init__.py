"""The core kept fresh for a live face: what is known, what was lost, what was told, and when to repaint. No Textual."""
