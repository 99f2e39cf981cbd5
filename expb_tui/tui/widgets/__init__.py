"""Widgets without domain words: what is shown comes as cells, what is done is named by actions."""
