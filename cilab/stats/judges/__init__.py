"""Statistics of judges and graders: agreement, leniency, grading. May import the wings beside and below it."""
