"""What a run looks like while it goes on: a live tree, plain lines, or JSON lines."""
