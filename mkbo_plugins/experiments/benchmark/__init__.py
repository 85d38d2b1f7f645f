"""The benchmark of pre-trained covariances against their peers; `run_benchmark` runs it."""
