"""File formats, other libraries' objects, and estimators for scikit-learn."""
