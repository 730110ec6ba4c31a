"""The command line: thin, and only over public names."""
