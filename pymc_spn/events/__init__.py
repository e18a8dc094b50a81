"""What may be known or asked of a row: values, intervals, sets, unions and text, and their probabilities."""
