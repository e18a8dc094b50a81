"""What a user asks: questions by topic, and the objects that answer them."""
