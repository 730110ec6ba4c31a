"""toolnexus: tools from everywhere, one run loop, sub-agents with one builtin."""
