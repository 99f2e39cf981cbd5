"""Which file system a folder is on: SQLite's locks and WAL do not work over a network (hazards 8)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from expb_tui.core.errors import FileProblem

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs?|afs|coda|ceph|glusterfs|lustre|gpfs|beegfs|orangefs|pvfs2|panfs|ocfs2|gfs2?|9p|"
    r"virtiofs|fuse\.(sshfs|glusterfs|ceph\S*|rclone|s3fs|gcsfuse|smbnetfs|davfs\S*|\S*nfs\S*)|davfs"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path, *, mountinfo: str | None = None) -> str:
    """The type of the file system that holds ``path``, e.g. ``ext4``; empty where the system does not tell.

    Source: ``/proc/self/mountinfo``, man 5 proc; the last mount on the longest matching mount point counts.
    """
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = os.path.realpath(path)
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        columns = before.split(" ")
        if not separator or len(columns) < 5:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), columns[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), after.split(" ")[0]
    return kind


def refuse_network(path: Path, *, mountinfo: str | None = None) -> None:
    """Raise ``FileProblem`` (code ``network-file-system``) where ``path`` is on a network file system."""
    kind = file_system_of(path, mountinfo=mountinfo)
    if _NETWORK.fullmatch(kind):
        raise FileProblem(
            f"{path} is on a network file system ({kind})",
            cause="two hosts could write the journal at once and lose leases",
            next_step="Set EXPB_TUI_STATE_DIR to a folder on a local disk",
            code="network-file-system",
        )
