"""Who is elected, by ranked ballots. See docs/rules.md, section 9."""

from collections import Counter

from tally import shortcuts


def winner(ballots):
    """The name that is elected; `ballots` are lists of names in order of preference."""
    if shortcuts.applies(ballots):
        return shortcuts.first_choices(ballots)
    race = {name for ballot in ballots for name in ballot}
    while race:
        votes = Counter({name: 0 for name in race})
        for ballot in ballots:
            votes.update([name for name in ballot if name in race][:1])
        top, most = max(votes.items(), key=lambda item: item[1])
        if 2 * most > sum(votes.values()):
            return top
        fewest = min(votes.values())
        race.remove(max(name for name in race if votes[name] == fewest))
    raise ValueError("nobody to elect")
