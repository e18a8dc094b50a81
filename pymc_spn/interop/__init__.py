"""File formats and other libraries' objects."""
