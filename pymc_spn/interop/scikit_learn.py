"""What the estimators take from scikit-learn, in one place, so that its absence is said in one sentence."""

try:
    from sklearn import get_config as get_config
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import DensityMixin as DensityMixin
    from sklearn.base import OneToOneFeatureMixin as OneToOneFeatureMixin
    from sklearn.base import OutlierMixin as OutlierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.utils import check_consistent_length as check_consistent_length
    from sklearn.utils import check_random_state as check_random_state
    from sklearn.utils import get_tags as get_tags
    from sklearn.utils.multiclass import check_classification_targets as check_classification_targets
    from sklearn.utils.validation import check_is_fitted as check_is_fitted
    from sklearn.utils.validation import validate_data as validate_data
except ImportError as error:
    raise ImportError(
        'the estimators of pymc_spn need scikit-learn, 1.6 or later: install the extra "sklearn" of pymc_spn'
    ) from error
