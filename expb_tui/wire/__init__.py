"""The Exp-Bench contract as pydantic models, shared by the client and by the local server.

Every model reads tolerantly: both spellings of a key, unknown keys kept. The server asks for
strictness where it validates: ``Model.model_validate(body, extra="forbid")``.
"""
