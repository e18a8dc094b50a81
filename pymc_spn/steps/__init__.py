"""What the step methods and distributions of every family share: tickets, and variables that a step owns."""
