"""Evaluation of explicit circuits: compiled once for a structure, then run over blocks of rows."""
