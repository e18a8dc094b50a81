"""Which files of tests are in the second tier; see `conftest.py`."""

# Files of the second tier, by folder. A new file is in the first until it is named here.
REST = {
    "circuits": """
        circuit_events circuit_information circuit_parts composition
        circuit evaluation event_draws flows learned_tree leaves_over_columns
        parameterised_circuit rows_together tree_circuits
    """,
    "leaves": """
        elliptical_leaves families family_contract interval_moments large_counts scipy_leaves
    """,
    "events": """
        event_text refused_events soft_evidence unions
    """,
    "maxima": """
        most_probable
    """,
    "answers": """
        cell_p_values chain_answers column_queries dependence_queries integer_names intervals marks partitions
        posterior_circuit posterior_queries predictive_p_values questions refusals row_distributions row_labels
        row_queries row_similarity union_posterior variational_posterior
    """,
    "networks": """
        calibration chain_runs changed_models distributions
        draw_averages geweke hyperparameters draw_blocks joint_cells leaf_kernels leaf_priors
        gap_indicators joint_leaves joint_posteriors kernels left_out missing_cells mixed_counts
        predictive_checks published recorded_cells rounded_cells statistics step_methods
        partitions stored_starts sweep_costs variational_joints whole_numbers
    """,
    "densities": """
        circuit_density circuit_density_tensors
        wide_circuit_density
    """,
    "dags": """
        dag_posterior dag_steps imputed_posterior learned_penalty level_effects log_evidence
        many_variables mixed_effects partition_mcmc regular sampled_queries
        sampler_kernels subset_kernels
    """,
    "factor_graphs": """
        bif extremes fields junction_tree known_models
    """,
    "indian_chefs": """
        cascading exact_chains graph_variable move_ratios network_geweke
        network_kernels network_log_likelihood network_models network_rows prior_graphs process published_posteriors
        warm_up
    """,
    "examples": """
        convolutional
    """,
    "trees": """
        particle_gibbs particles predictive_quantiles tree_checks tree_models tree_posterior
    """,
    "interop": """
        combined_results damaged_results dask_clusters dask_rows estimators
        frames_in_answers interrupts precompiled saved_posteriors scikit_checks
    """,
    "tests": """
        docstrings documents model_pictures names_in_results readme reference structures_in_models threads
    """,
    "numerics": """
        progress_bars
    """,
    "plots": """
        circuit_plots tree_plots
    """,
}
