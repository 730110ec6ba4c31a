"""The builtin tools: implementations, bound by name to the definitions in `builtins/`."""
