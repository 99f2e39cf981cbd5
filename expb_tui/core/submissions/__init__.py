"""What a task asks for and what is sent back: reading it, forms and drafts, evidence, the search for secrets."""
