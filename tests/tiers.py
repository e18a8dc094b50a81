"""Which files of tests are in the second tier; see `conftest.py`."""

# Files of the second tier, by folder. A new file is in the first until it is named here.
REST = {
    "circuits": """
        circuit_algebra circuit_builders circuit_events fit_em circuit_information circuit_parts composition
        cutset_networks evaluation event_draws fit_json fitted_leaves flows leaves_over_columns
        parameterised_circuit piecewise_linear prometheus rows_together tree_circuits uniform_ends
    """,
    "leaves": """
        beta_leaves elliptical_leaves families family_contract interval_moments large_counts plain_leaves
        scipy_leaves skewed_leaves triangular_leaves weibull_leaves
    """,
    "events": """
        event_text soft_evidence unions
    """,
    "maxima": """
        most_probable rows_of_ellipses
    """,
    "answers": """
        cell_p_values chain_answers column_queries dependence_queries integer_names marks partitions posterior_circuit
        posterior_queries predictive_p_values questions row_distributions row_labels row_queries row_similarity
        union_posterior variational_posterior
    """,
    "networks": """
        added_family alternation bottom_up calibration chain_runs chain_weights changed_models distributions
        draw_averages geweke hyperparameters draw_blocks joint_cells joint_distribution leaf_kernels leaf_priors
        left_out log_space gap_indicators missing_cells mixed_counts published recorded_cells rounded_cells start_race
        statistics joint_posteriors step_methods stored_starts variational_joints whole_numbers
    """,
    "densities": """
        circuit_density circuit_density_jax circuit_density_loo circuit_density_tensors conditional_circuits
        dense_networks discriminative_circuits integral_circuits monotone_parts sums_of_squares
        wide_circuit_density
    """,
    "dags": """
        forward_draws lattice log_evidence partition_mcmc regular sampled_queries subset_kernels
    """,
    "factor_graphs": """
        extremes fields known_models
    """,
    "indian_chefs": """
        cascading cascading_networks exact_chains graph_variable move_ratios moves network_geweke network_kernels
        network_models tempered_chains warm_up
    """,
    "examples": """
        convolutional
    """,
    "trees": """
        predictive_quantiles tree_models
    """,
    "interop": """
        combined_results damaged_results estimators interrupts saved_posteriors scikit_checks
    """,
    "tests": """
        threads
    """,
    "numerics": """
        progress_bars
    """,
    "benchmarks": """
        tables_side_by_side
    """,
}
