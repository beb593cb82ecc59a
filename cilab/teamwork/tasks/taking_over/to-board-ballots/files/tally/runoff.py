"""Who is elected, by ranked ballots. See docs/rules.md, section 9."""


def winner(ballots):
    """The name that is elected; `ballots` are lists of names in order of preference."""
    raise NotImplementedError
