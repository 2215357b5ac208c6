"""The operating system and its files: locks, durable files, git, processes, turns on the event loop."""
