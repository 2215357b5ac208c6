"""An engine outside that has a copy of the graph and answers Cypher."""
