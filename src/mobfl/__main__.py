"""The command `mobfl`. A signal ends it with status 130 from here on, also while the rest is imported."""

from mobfl.interrupts import leave_at_once_from_now_on


def main() -> None:
    leave_at_once_from_now_on()
    from mobfl.cli import main as command

    command()


if __name__ == "__main__":
    main()
