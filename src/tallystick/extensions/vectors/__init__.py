"""Search by meaning, with a model that runs on this machine."""
