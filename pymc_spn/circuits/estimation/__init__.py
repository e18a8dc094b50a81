"""Learners of one estimate: expectation maximisation, and structures that come with their parameters."""
