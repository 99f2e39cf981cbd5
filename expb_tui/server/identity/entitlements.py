"""Who may open system sessions: whom the operator names at the start of the server, and nobody else."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, select

from expb_tui.server.config import ServerError
from expb_tui.server.context import Unit
from expb_tui.server.resources import name_key
from expb_tui.server.store.schema import system_entitlements, users


def entitle(unit: Unit, emails: Iterable[str]) -> None:
    """Grant it to the users of these addresses and take it from all others. Raises ``ServerError`` for nobody's."""
    entitled: set[str] = set()
    for email in emails:
        user = unit.one(select(users.c.id).where(users.c.email_key == name_key(email)))
        if user is None:
            raise ServerError(
                f"No user has the address {email}",
                cause="a system administrator must be a user of this database already",
                next_step="Correct --system-admin, or leave it out",
                code="system-admin-unknown",
            )
        entitled.add(user.id)
    unit.conn.execute(delete(system_entitlements).where(system_entitlements.c.user_id.not_in(entitled)))
    for user_id in sorted(entitled):
        grant = unit.database.insert_or(system_entitlements).values(user_id=user_id, granted_at=unit.now)
        unit.conn.execute(grant.on_conflict_do_nothing())


def is_entitled(unit: Unit, user_id: str) -> bool:
    """Whether a user may open system sessions."""
    granted = select(system_entitlements.c.user_id).where(system_entitlements.c.user_id == user_id)
    return unit.one(granted) is not None
