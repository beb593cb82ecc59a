"""Statistics of teamwork runs. May import `cilab.stats.methods`, `cilab.results`, `cilab.core` and open parts."""
