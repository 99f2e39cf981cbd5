"""What help says of each place: what it shows, how to read it, and what one does next.

In a text, ``{lease.renew}`` stands for the key of that action as it is now, ``{sign:live}`` for a sign as drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Help(NamedTuple):
    """``shows`` and ``next`` are paragraphs; ``reading`` explains words and signs, one by one."""

    shows: tuple[str, ...]
    reading: tuple[tuple[str, str], ...] = ()
    next: tuple[str, ...] = ()


HELP: Mapping[str, Help] = {
    "profiles": Help(
        (
            "A profile is a saved credential for one service: a user's session, or the token of an agent identity. "
            "They are the profiles of expbctl, in the same file; what it changes appears here by itself.",
            "A user administers, an agent does the work: panes 2 and 3 need an agent.",
        ),
        (
            ("{sign:live}", "the profile that the cockpit acts as: work and claims are its"),
            ("*", "the default, which commands use; choosing a profile makes it both"),
            ("signed in", "a credential is saved; a user's is refreshed by itself before it expires"),
            ("expired", "the credential can no longer be used, and nothing can refresh it"),
            ("SECRET", "where the credential is: the system keyring, or a file that only you can read"),
        ),
        (
            "Begin with {profile.login}: a code appears, you approve it in a browser on any device. Then "
            "{profile.agent} registers an agent of that account, or {profile.token} saves a token that you already "
            "have.",
            "{profile.use} acts as the profile under the cursor. {profile.project} chooses the project it works in.",
            "Signing out and removing name the leases that would be stranded, and ask first. {app.undo} brings back "
            "what was only deleted here: a removed profile, an agent's token.",
        ),
    ),
    "work": Help(
        (
            "What the service would give to this agent now, one row a project and role. An offer reserves nothing: "
            "claiming is a request of its own, and the answer may be empty when somebody else was quicker.",
        ),
        (
            ("WORK", "tasks that could be claimed now"),
            ("HELD", "packages of this role that are being worked on, by whomever"),
            ("live events", "the list is kept fresh by the service, through a signed-in user of the same account"),
            ("polling", "it is asked for every few seconds, because no such user is signed in here"),
            ("stale", "the service does not answer: the rows are as they were then, and it is asked again by itself"),
        ),
        (
            "{work.claim} claims: a form shows what is asked for before anything is sent.",
            "No work is a normal state. {work.all} shows roles without work too; under the cursor it is said why: the "
            "project or its objectives may not be active, the role may be switched off, work may wait for a review, a "
            "hold or a limit may stop it. Causes that this credential cannot see are named as such.",
        ),
    ),
    "leases": Help(
        (
            "Every work package that this host holds, whoever claimed it. A lease that runs out gives its open tasks "
            "to others, so the first column is the time that is left.",
        ),
        (
            ("LEFT", "in minutes, and in seconds below two minutes, for the soonest lease and for the selected one"),
            ("{sign:full}{sign:full}{sign:empty}", "the share of the lease that is left"),
            ("amber", "the renewal is overdue, keeping is off, or the absolute end is nearer than one more lease"),
            ("red", "less than a tenth is left"),
            ("RENEW", "when the next renewal is due, or why there is none"),
            ("KEPT BY", "the keeper, which goes on when the cockpit is closed; this cockpit; or nobody"),
            ("ABSOLUTE END", "the time, beyond which no renewal leads"),
            (
                "token lost",
                "assigned, but the answer with its token never arrived: a member withdraws it with "
                "{lease.withdraw}, or it runs out",
            ),
            (
                "no credential",
                "the profile it was claimed with is signed out, gone, or points elsewhere; nothing is sent "
                "for it until that is mended",
            ),
            ("lost", "the service has taken it back; drafts stay on this host"),
        ),
        (
            "{lease.submit} fills in the open task and submits it; {lease.open} shows the package with all its tasks.",
            "{lease.keep} switches the keeping of a lease off, and on again. {lease.renew} renews now. {lease.release} "
            "gives a package back, when you will not finish it.",
            "Mark several with {list.mark} to renew, release or keep them at once.",
        ),
    ),
    "package": Help(
        (
            "The package under the cursor of the leases: its facts, its tasks, and what the chosen task asks for. It "
            "is read from this host's journal at once, and from the service a moment later.",
        ),
        (
            ("open", "the task waits for a submission"),
            ("draft", "what you have typed for it; it is saved as you type, and is never sent by itself"),
            ("submitted", "the service has confirmed the result; nothing else makes a task submitted"),
            ("absolute end", "the time beyond which no renewal of the lease leads"),
        ),
        (
            "{package.submit} fills in the task; {package.edit} edits its draft in $EDITOR; {package.fail} reports "
            "that it could not be done, with a reason. {package.next_task} goes to the next task.",
            "Every task takes one submission. Afterwards {package.receipts} shows what was confirmed.",
        ),
    ),
    "list": Help(
        ("Every list and every text moves, filters, sorts and marks in the same way.",),
        (
            ("/", "after it, words narrow the rows while you type; Enter keeps the filter, Esc drops it"),
            ("*", "a marked row; actions are about all marked rows, and their labels say how many"),
            ("{sign:arrow} at the edge", "there are more columns than fit: {list.right} scrolls to them"),
        ),
        (
            "{list.sort_left} and {list.sort_right} choose the column to sort by, {list.sort_flip} turns the order "
            "round.",
            "{app.back} goes back step by step: range, filter, marks. {app.undo} has them again.",
        ),
    ),
    "global": Help(
        (
            "Lower-case keys never change anything on the server. Upper-case keys that do ask first and name their "
            "target; with --read-only the cockpit hides them. Whatever waits for the service can be cancelled with "
            "{app.cancel}, and nothing that was sent is lost by that.",
        ),
        (
            ("online", "the service answered within the last minute"),
            ("no answer", "since when, and how long; everything on this host goes on, and so does the keeper"),
            ("lease 12m", "the time left of the lease that ends first"),
            ("! 2 new", "warnings and errors that you have not looked at: {app.notices} lists them"),
        ),
        (
            "{app.menu} offers all that can be done with a row, {app.palette} finds any action by name, {app.copy} "
            "copies. {pane.full} gives a pane the whole screen. {app.doctor} says what terminal, keyring, keeper and "
            "service can do here, with the line that mends each.",
            "The dim word at the end of each line below is the action's id: write it under [keys] in config.toml to "
            "give the action another key.",
        ),
    ),
    "confirm": Help(
        ("What is about to be changed, by name, and what that means. Nothing has been sent yet.",),
        (),
        ("{dialog.accept} or {confirm.yes} does it, {dialog.close} or {confirm.no} does not.",),
    ),
    "leave": Help(
        ("What becomes of the leases when the cockpit is left: which go on, and which run out and when.",),
        (),
        ("{leave.keeper} starts the keeper where none runs; it renews without the cockpit, until somebody stops it.",),
    ),
    "notices": Help(
        ("What went wrong and what was done since the cockpit was opened, newest first.",),
        (
            ("{sign:bad} {sign:warn}", "a failure, a warning; these are counted at the right end of the key line"),
            ("3x", "told three times; below stands when it was told first"),
            ("next", "what mends it"),
        ),
        ("{notice.open} goes to the row that the notice is about. {notice.copy} copies it whole, for a report.",),
    ),
    "doctor": Help(
        ("What terminal, clipboard, keyring, clock, keeper, journal and service can do here.",),
        ((("{sign:ok} {sign:warn} {sign:bad}"), "works, works with a loss, does not work"),),
        ("{doctor.copy} copies the line that mends what is under the cursor; {doctor.again} examines anew.",),
    ),
    "login": Help(
        (
            "A code and an address. Open the address in a browser on any device, check that it shows the same code, "
            "and approve. The cockpit waits for that and never asks for a password.",
        ),
        (
            ("good for", "the code's own time; after it {login.again} asks for a new one"),
            (
                "{sign:warn}",
                "the service does not answer, or asked to be asked less often: the cockpit goes on waiting",
            ),
        ),
        ("{login.copy} copies the address, {login.swap} shows it as a QR code for a phone.",),
    ),
    "whole": Help(
        ("One package with all its tasks, as the service has it.",),
        (),
        ("Enter opens a task for reading and filling in. {whole.back} goes back to the panes.",),
    ),
    "task": Help(
        ("One task: what it asks for, and the form for the answer beside or below it.",),
        (("saved as you type", "it is in the journal of this host; a crash or a lost connection does not lose it"),),
        (
            "{task.fill} goes into the form, Esc comes back to reading. {task.editor} edits the same draft as YAML.",
            "{task.submit} shows exactly what would be sent, and asks.",
            "What was typed when the task was held before, or in two windows at once, stays: {task.versions} chooses.",
        ),
    ),
    "form": Help(
        ("The answer, field by field; a field's own words stand beside it.",),
        (
            ("required", "the submission cannot be sent without it"),
            ("{sign:bad}", "the field is not right yet; why stands below it"),
        ),
        ("{form.review} shows what would be sent, {form.look} the task. {form.add} and {form.remove} change lists.",),
    ),
    "claim": Help(
        ("What is asked for, and as whom. The service decides what it assigns, if anything.",),
        (("tasks, at most", "one package may hold several tasks of a role; the role decides how many"),),
        (
            "{claim.ask} asks. An empty answer is normal: the offer was taken meanwhile, or a limit was reached.",
            "What is assigned is in the journal before it is shown, and is kept renewed from then on.",
        ),
    ),
    "unsaved": Help(
        (
            "A package was assigned, but its token could not be written to this host. It is shown here once: without "
            "it nobody can renew or submit the package.",
        ),
        (),
        ("Make room and save it again, copy the token, or give the package back.",),
    ),
    "submit": Help(
        ("Exactly what would be sent. Nothing has left this host yet.",),
        (),
        ("{submit.send} sends it. Only the service's confirmation makes the task submitted; then a receipt is kept.",),
    ),
    "receipt": Help(
        ("What this host has submitted, with the service's confirmation.",),
        (
            ("confirmed by", "the answer itself, or a later reading of the package where the answer was lost"),
            ("sha256", "the digest of what was sent, as the service keeps it"),
        ),
        ("{receipt.open} shows one whole.",),
    ),
    "dialog": Help(("A dialog stands over the panes, which go on below it.",)),
}
