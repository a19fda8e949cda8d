"""Many runs: sweeps, results, and what they say together."""
