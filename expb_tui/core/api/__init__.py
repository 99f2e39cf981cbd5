"""The Exp-Bench API as typed calls. Importing this loads nothing; httpx is loaded with the first request."""
