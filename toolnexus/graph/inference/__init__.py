"""One request to a model: what a graph asks for, who answers, and what comes back.

What it is: the request and the reply of the `inference` node and of the `inference` global of scripts.
What it is not: a loop. Above: `nodes/inference`, `scripts/bridges/inference`. Below: `engine.model_turn`.
"""
