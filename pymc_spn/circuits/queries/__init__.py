"""What the draws answer: records, densities, probabilities, moments, imputations, circuits."""
