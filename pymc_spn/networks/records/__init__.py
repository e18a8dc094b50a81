"""What a posterior is made of: recorded draws, the states they stand for, and what these predict."""
