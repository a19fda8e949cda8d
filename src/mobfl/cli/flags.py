"""Library errors name parameters; on the command line the same is a flag."""

import re

import click

from mobfl.errors import InputError

_WHOLE = 1000  # characters of a summary
# Where a parameter has another name than its flag.
_FLAGS = {
    "local training": "--local",
    "task": "TASK",
    "checkpoint_s": "--checkpoint",
    "the target": "--target",
    "plan": "--plan",
    "least_uploads": "--least-uploads",
    "with_prob": "--with-prob",
    "longest_stay_s": "--longest-stay",
    "font_size": "--font-size",
    "gap_s": "--gap",
}


class FlagWording(click.Group):
    """Says mistakes in the words of the command line, and lists commands with whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Click cuts what does not fit into a line; here it goes on in the next."""
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except InputError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            flags = [] if command is None else [flag for each in command.params for flag in each.opts]
            raise InputError(in_flags(line, flags) for line in error.lines) from error


def in_flags(line: str, flags: list[str]) -> str:
    """`workers must be >= 1` as `--workers must be >= 1`, if the command has such a flag."""
    names = {flag.removeprefix("--"): flag for flag in flags if flag.startswith("--")} | _FLAGS
    for name, flag in names.items():
        if re.match(rf"{re.escape(name)}(?=[ :])", line) and (flag in flags or flag == flag.upper()):
            return flag + line[len(name) :]
    return line
