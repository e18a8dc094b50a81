"""What a user asks of a posterior: one object, its questions by topic, and the circuits made of it."""
