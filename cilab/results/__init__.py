"""What an answer is: results, the decorator of estimators, numbers in words, the sheet that is printed.

May import `cilab.core`. Reads no file, calls no model; draws only through the one door in `Result.plot`.
"""
