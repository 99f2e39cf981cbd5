"""What a task asks for and what is sent back: reading it, filling a form or a draft, evidence, and the search for secrets."""
