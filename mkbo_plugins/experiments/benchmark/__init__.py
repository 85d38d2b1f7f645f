"""The benchmark of pre-trained covariances against their peers; `mkbo benchmark` and `runner.run` run it."""
