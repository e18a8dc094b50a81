"""Which files of tests are in the second tier; see `conftest.py`."""

# Files of the second tier, by folder. A new file is in the first until it is named here.
REST = {
    "circuits": """
        alternation beta_leaves bottom_up cell_p_values chain_answers chain_weights changed_models circuit_algebra
        circuit_builders circuit_density circuit_density_jax circuit_density_loo circuit_density_tensors
        circuit_events circuit_fit circuit_information circuit_parts column_queries composition conditional_circuits
        cutset_networks dense_networks dependence_queries discriminative_circuits distributions draw_averages
        evaluation event_draws event_text families fit_json fitted_leaves flows geweke hyperparameters
        integer_names integral_circuits interval_moments joint_distribution large_counts leaf_kernels
        leaf_priors left_out log_space missing_cells mixed_counts monotone_parts most_probable
        parameterised_circuit partitions piecewise_linear plain_leaves posterior_circuit posterior_queries
        predictive_p_values prometheus published rounded_cells row_distributions row_labels row_queries
        rows_together scipy_leaves skewed_leaves soft_evidence start_race statistics sums_of_squares
        tree_circuits triangular_leaves uniform_ends union_posterior unions weibull_leaves
    """,
    "dags": """
        forward_draws lattice log_evidence partition_mcmc regular sampled_queries subset_kernels
    """,
    "factor_graphs": """
        extremes fields known_models
    """,
    "indian_chefs": """
        cascading cascading_networks convolutional exact_chains graph_variable move_ratios moves network_geweke
        network_kernels tempered_chains warm_up
    """,
    "trees": """
        predictive_quantiles tree_models
    """,
    "interop": """
        combined_results damaged_results estimators interrupts scikit_checks
    """,
    "numerics": """
        progress_bars
    """,
}
