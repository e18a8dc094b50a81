"""The most probable row: a first ascent, then a best-first search over boxes with a bound."""
