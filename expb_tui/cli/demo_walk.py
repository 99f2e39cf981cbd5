"""``demo --headless``: the whole work loop against the running demo, one printed line for each confirmed step."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from expb_tui.cli import demo_page
from expb_tui.cli.demo_answers import output_for
from expb_tui.cli.demo_server import USER_PROFILE, World
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import coarse
from expb_tui.launch import Chosen, House, open_house

if TYPE_CHECKING:
    from expb_tui.cli.output import Output
    from expb_tui.core.profiles.login import PollState
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import Profile

_WALKER = "walker"


class _NotConfirmed(ExpbError):
    """A step whose answer does not say what it should."""

    code = "not-confirmed"


def walk(there: World, output: Output) -> bool:
    """Every step of the loop; False, after saying which, where the server did not confirm one."""
    return asyncio.run(_Walk(there, output).all_steps())


class _Walk:
    def __init__(self, there: World, output: Output) -> None:
        self._there = there
        self._output = output
        self._glyphs = output.glyphs

    def _done(self, text: str) -> None:
        self._output.lines([f"{self._glyphs.ok} {text}"])

    async def all_steps(self) -> bool:
        house = open_house(Chosen(profile=USER_PROFILE, endpoint=self._there.address))
        step = "the local server"
        try:
            self._done(f"server       {self._there.address}")
            step = "the device login"
            await self._sign_in(house)
            step = "the registration of an agent"
            agent = await self._register(house)
            step = "the authorization"
            await self._authorize(house, agent)
            from expb_tui.wire.work import ROLES

            session = await house.session(agent.name)
            for role in ROLES:
                step = f"the role {role}"
                await self._work(house, session, role)
        except ExpbError as error:
            self._output.lines([f"{self._glyphs.bad} {step}: {error}"])
            return False
        finally:
            await house.aclose()
        self._output.lines(["Every step was confirmed by the server."])
        return True

    async def _sign_in(self, house: House) -> None:
        from expb_tui.core.profiles.login import DeviceLogin

        there = self._there
        login = DeviceLogin(house.store, profile=USER_PROFILE, endpoint=there.address, settings=house.settings)
        try:
            code = await login.start()
            self._done(f"device code  {code.user_code} at {code.uri}")
            last: PollState | None = None
            async for state in login.poll():
                if last is None:
                    await asyncio.to_thread(
                        demo_page.approve, code.complete_uri, there.email, there.password, there.account_id
                    )
                    self._done(f"approval     {there.email} signed in on the page and approved")
                last = state
            if last is None or last.kind != "approved":
                raise _NotConfirmed("The login was not approved", cause=last.text if last else "")
            saved = await login.save()
        finally:
            await login.aclose()
        principal = await (await house.session(saved.name)).principal()
        self._done(f"signed in    profile {saved.name}, user {principal.user_id}, {principal.account_role}")

    async def _register(self, house: House) -> Profile:
        from expb_tui.core.profiles.login import register_agent

        agent = await register_agent(await house.session(USER_PROFILE), house.store, _WALKER, _WALKER)
        principal = await (await house.session(agent.name)).principal()
        if principal.type != "agent" or principal.agent_id != agent.agent_id:
            raise _NotConfirmed("The new token does not speak for the new agent")
        self._done(f"registered   agent {_WALKER} {agent.agent_id}")
        return agent

    async def _authorize(self, house: House, agent: Profile) -> None:
        from expb_tui.core.api import identity
        from expb_tui.wire.work import ROLES

        there = self._there
        granted = await identity.authorize_agent(
            await house.session(USER_PROFILE),
            there.project_id,
            agent.agent_id or "",
            list(ROLES),
            key=str(uuid.uuid4()),
        )
        grants = (await (await house.session(agent.name)).principal()).role_grants or {}
        if set(grants.get(there.project_id, [])) != set(ROLES):
            raise _NotConfirmed("The agent does not hold all five roles")
        self._done(f"authorized   for {len(ROLES)} roles in {there.project_name} ({granted.uid})")

    async def _work(self, house: House, session: Session, role: str) -> None:
        desk, there = house.desk, self._there
        claimed = await desk.request(session, there.project_id, role, 1, project_name=there.project_name)
        if claimed.kind != "assigned" or claimed.held is None:
            raise _NotConfirmed(f"No work for {role}", cause=claimed.why or "the package is empty")
        held = claimed.held
        left = coarse(held.remaining(house.clock))
        self._done(f"requested    {role}: package {held.uid}, {len(held.tasks)} task, {left} left")
        renewed = await desk.renew(session, held.uid)
        if renewed.kind != "renewed" or renewed.held.renewals != held.renewals + 1:
            raise _NotConfirmed(f"The lease of {held.uid} was not renewed")
        self._done(f"renewed      {held.uid}, {coarse(renewed.held.remaining(house.clock))} left")
        for task in renewed.held.tasks:
            body = {"taskId": task.task_id, "outcome": "completed", "output": output_for(role, task.input)}
            sent = await desk.submit(session, held.uid, body)
            receipt = sent.receipt
            phase = await self._phase(session, receipt.record_kind, receipt.record_id)
            self._done(f"submitted    {task.task_id} as {receipt.record_kind} {receipt.record_id}, {phase}")
        ended = (await desk.show(session, held.uid)).held
        if ended.phase != "completed":
            raise _NotConfirmed(f"Package {held.uid} is {ended.phase}, not completed")

    async def _phase(self, session: Session, kind: str, uid: str) -> str:
        """The record's phase as the server reads it back; an integration must be *proposed*."""
        body: Any = (await session.request("GET", f"/v1/{kind}/{uid}")).body
        phase = str(body["status"]["phase"]) if isinstance(body, dict) else ""
        if kind == "integrations" and phase != "proposed":
            raise _NotConfirmed(f"Integration {uid} is {phase}, not proposed")
        return phase
