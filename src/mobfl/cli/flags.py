"""Library errors name parameters; on the command line the same is a flag."""

import re

import click

from mobfl.errors import InputError

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
}


class FlagWording(click.Group):
    """Says mistakes in the words of the command line."""

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
