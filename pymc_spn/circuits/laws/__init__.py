"""An explicit circuit with its parameters as a law: events, columns, information, draws, the most probable row."""
