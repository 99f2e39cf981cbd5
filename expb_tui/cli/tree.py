"""The command tree: lazily imported nouns, global options before and after any command, and exit codes."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from expb_tui.cli import diagnostics
from expb_tui.cli.options import GLOBALS, GlobalOption
from expb_tui.core import faults
from expb_tui.core.errors import ExpbError, UsageError

if TYPE_CHECKING:
    from expb_tui.cli.output import Output
    from expb_tui.first_line import FirstLine
    from expb_tui.launch import Chosen

PROGRAM = diagnostics.PROGRAM


class Given:
    """The global options of one command line; what stands further right wins."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.line: FirstLine | None = None

    def chosen(self) -> Chosen:
        """What they choose, as the house wants it. Raises ``UsageError``."""
        from expb_tui.cli import values
        from expb_tui.launch import Chosen

        value = self.values.get
        token = value("token")
        return Chosen(
            profile=value("profile"),
            endpoint=value("endpoint"),
            token=values.token(token, "--token") if token is not None else None,
            timeout=values.seconds(value("timeout")),
            account=value("account"),
            project=value("project"),
            insecure_http=bool(value("insecure_http")),
        )

    def output(self) -> Output:
        """The writer of standard output. Raises ``UsageError``."""
        from expb_tui.cli.output import Output, parse_format

        return Output(parse_format(self.values.get("output")))


def given(ctx: click.Context) -> Given:
    """The global options of the command line that ``ctx`` belongs to."""
    return ctx.find_root().ensure_object(Given)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value not in (None, False):
        given(ctx).values[str(param.name)] = value
    return value


def _complete(option: GlobalOption, incomplete: str) -> list[CompletionItem]:
    if option.dest == "output":
        from expb_tui.cli.output import FORMATS

        words: Sequence[str] = FORMATS
    elif option.dest == "profile":
        words = profile_names()
    else:
        return []
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def profile_names() -> list[str]:
    """The profiles' names for completion; none where the file cannot be read."""
    from expb_tui.core.profiles.store import ProfileStore

    try:
        return sorted(ProfileStore().read().by_name)
    except ExpbError:
        return []


def _option(option: GlobalOption) -> click.Option:
    return click.Option(
        [*option.names, option.dest],
        metavar=option.metavar,
        is_flag=True if option.metavar is None else None,
        expose_value=False,
        callback=_keep,
        help=option.help,
        shell_complete=lambda ctx, param, incomplete: _complete(option, incomplete),
    )


def _print_help(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from expb_tui.cli.output import Output

        Output().text(ctx.get_help())
        ctx.exit()


class _Everywhere(click.Command):
    """Adds the global options and a help option that writes through ``output``."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params[:-1], *_global_params(), *params[-1:]]

    def get_help_option(self, ctx: click.Context) -> click.Option:
        return click.Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_help,
            help="Show this help.",
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options first; the global ones in full at the root only."""
        records: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        ours = {option.dest for option in GLOBALS}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                (shared if param.name in ours else records).append(record)
        if records:
            with formatter.section("Options"):
                formatter.write_dl(records)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        if ctx.parent is None:
            with formatter.section("Options of every command, before or after it"):
                formatter.write_dl(shared)
        else:
            formatter.write_paragraph()
            formatter.write_text(f"Options of every command: see '{PROGRAM} --help'.")


_globals: list[click.Parameter] = []


def _global_params() -> list[click.Parameter]:
    if not _globals:
        _globals.extend(_option(option) for option in GLOBALS)
    return _globals


class Command(_Everywhere):
    """A command of the tree."""


class Noun(_Everywhere, click.Group):
    """A group whose commands are named in ``lazy`` (name -> module:attribute, short help) and imported when used."""

    command_class = Command

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *(name for name in self.commands if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy and cmd_name not in self.commands:
            module, _, attribute = self.lazy[cmd_name][0].partition(":")
            self.add_command(getattr(importlib.import_module(module), attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def _summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy:
                rows.append((name, self.lazy[name][1]))
            elif not self.commands[name].hidden:
                rows.append((name, self.commands[name].get_short_help_str(100)))
        return rows

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._summaries(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in self._summaries(ctx) if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(ctx), 1)
            ctx.fail(f"no such command '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from expb_tui.cli.output import Output
        from expb_tui.cli.version import version_line

        Output().text(version_line())
        ctx.exit()


@click.group(
    PROGRAM,
    cls=Noun,
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
    lazy={
        "auth": ("expb_tui.cli.auth:auth", "Sign in, sign out, and see who you are."),
        "profile": ("expb_tui.cli.profile:profile", "Saved profiles of this host."),
        "context": ("expb_tui.cli.context:context", "The project that a profile works on."),
        "agent": ("expb_tui.cli.agent:agent", "Find, claim, keep and submit an agent's work."),
        "keeper": ("expb_tui.cli.keeper:keeper", "Renew every lease on this host that is set to be kept."),
        "serve": ("expb_tui.cli.serve:serve", "Run a local Exp-Bench server."),
        "demo": ("expb_tui.cli.demo:demo", "Try everything on a local server with a small research project."),
        "doctor": ("expb_tui.cli.doctor:doctor", "Tell what works here, what does not, and the line that mends it."),
        "completion": ("expb_tui.cli.completion:completion", "Print the completion script for bash, zsh or fish."),
        "version": ("expb_tui.cli.version:version", "Print the version."),
    },
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.option("--read-only", is_flag=True, help="The cockpit hides every action that changes something on the server.")
@click.option("--plain", is_flag=True, help="Lines and typed commands instead of screens, for screen readers.")
@click.pass_context
def root(ctx: click.Context, read_only: bool, plain: bool) -> None:
    """Run AI research agents against an Exp-Bench service.

    Without a command the cockpit opens; with --plain, or where TERM is dumb, a session of lines and typed commands.
    """
    if ctx.invoked_subcommand is None:
        from expb_tui.launch import open_face, open_house

        said = given(ctx)
        house = open_house(said.chosen()._replace(read_only=read_only))
        ctx.exit(open_face(house, line=said.line, plain=plain))
    for name, found in (("--read-only", read_only), ("--plain", plain)):
        if found:
            raise UsageError(f"{name} belongs to the cockpit", next_step=f"Start it as '{PROGRAM} {name}'")


def _command_path(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else PROGRAM


def _short_values_split(argv: Sequence[str]) -> list[str]:
    """``-o=json`` is written too: the sign between a short option and its value is not part of the value."""
    end = argv.index("--") if "--" in argv else len(argv)
    parts: list[str] = []
    for part in argv[:end]:
        short = len(part) > 3 and part[0] == "-" and part[1].isalpha() and part[2] == "="
        parts += [part[:2], part[3:]] if short else [part]
    return [*parts, *argv[end:]]


def run(argv: Sequence[str], line: FirstLine | None = None) -> int:
    """Carry out one command line; returns the exit code. Every error ends here, as one or two lines.

    ``line`` is what already stands on the alternate screen, if anything does. The garbage collector, which
    ``__main__`` keeps out of the start, works from here on.
    """
    state = Given()
    state.line = line
    faults.tell_places(diagnostics.fault)
    gc.enable()
    try:
        try:
            code = root.main(args=_short_values_split(argv), prog_name=PROGRAM, standalone_mode=False, obj=state)
        finally:
            # Before anything is said, or it would be said on the alternate screen.
            if line is not None:
                line.restore()
    except click.UsageError as error:
        return diagnostics.usage(error.format_message().rstrip("."), f"See '{_command_path(error)} --help'")
    except ExpbError as error:
        return diagnostics.fail(error)
    except (KeyboardInterrupt, click.Abort):
        return diagnostics.interrupted()
    except Exception as error:
        # Python 3.11 wraps an interrupt that hits the making of a class.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return diagnostics.interrupted()
        return diagnostics.defect(error)
    return code if isinstance(code, int) else 0
