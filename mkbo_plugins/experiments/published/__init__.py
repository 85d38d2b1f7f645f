"""Libraries of earlier campaigns on public benchmarks that others have published results of."""
