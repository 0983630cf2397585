"""The one exception that a user is meant to see."""


class InputError(ValueError):
    """Something that the user can set right: a path, an option, a file's content.

    The message names what is wrong, where, what was expected and what to do, in one to three lines. The
    command line prints it without a traceback and exits with status 2; everything else is a bug and keeps
    its traceback.
    """
