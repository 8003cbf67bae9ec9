"""Makes lines with tabs a table whose columns are as wide as they must be. A letter with a mark is one character here and several
bytes."""
import sys

rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
widths = [max(map(len, column)) for column in zip(*rows)]
for row in rows:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
