"""From a line of a file to its task, the facts that were read for it, and their authors."""
