"""Evidence from local files: digest, size and media type; the bytes stay here (contract, section 7 point 19)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expb_tui.core.submissions.fields import Form


async def complete(form: Form, values: Mapping[str, Any], *, folder: Path) -> dict[str, Any]:
    """``values`` with every named file read: digest, size, media type and name filled in, a patch file's text loaded.

    Relative paths count from ``folder``. Raises ``UsageError`` naming the field and file where one cannot be used.
    """
    raise NotImplementedError
