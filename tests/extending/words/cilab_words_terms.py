"""What readers of its runs need: the columns and versions of the benchmark, without the benchmark."""

from cilab.core.columns import text, whole
from cilab.core.vocabulary import Words

RUNS = (
    text("version", "Setting.", Words("version", guessing="one describes a word, the other guesses it")),
    whole("word_letters", "Letters of the word.", hinted=True),
)
