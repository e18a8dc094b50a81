"""Laws of columns, draws and circuits under a condition: distribution functions, parts, information."""
